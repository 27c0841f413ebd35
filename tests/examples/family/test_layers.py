"""Who knows of whom: the outbox is nobody's business but that of the wiring."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

FAMILY = Path(__file__).parents[3] / "examples/family/family"
UNAWARE = [*FAMILY.glob("application/*.py"), FAMILY / "infrastructure" / "repositories.py"]
FRAMEWORKS = {"alembic", "asyncpg", "dishka", "fastapi", "sqlalchemy", "strawberry"}


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.requirement("D3")
@pytest.mark.parametrize("path", UNAWARE, ids=lambda path: path.stem)
def test_neither_handlers_nor_repositories_know_of_the_outbox(path: Path) -> None:
    assert "outbox" not in path.read_text().lower()
    assert not [name for name in imported(path) if name.startswith("postroom")]


@pytest.mark.parametrize("layer", ["domain", "application"])
def test_the_inner_layers_know_neither_frameworks_nor_the_outer_ones(layer: str) -> None:
    outer = ("family.infrastructure", "family.api", "family.bootstrap")
    for path in FAMILY.joinpath(layer).glob("*.py"):
        names = set(imported(path))
        assert not {name.partition(".")[0] for name in names} & FRAMEWORKS, path
        assert not [name for name in names if name.startswith(outer)], path


def test_the_domain_knows_no_other_layer() -> None:
    for path in FAMILY.glob("domain/*.py"):
        ours = [name for name in imported(path) if name.startswith("examples")]
        assert all(name.startswith("family.domain") for name in ours), path
