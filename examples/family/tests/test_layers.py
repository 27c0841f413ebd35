"""Who knows of whom: the inner layers know neither the outer ones nor a framework."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

FAMILY = Path(__file__).parents[1] / "family"
FRAMEWORKS = {"alembic", "asyncpg", "dishka", "fastapi", "sqlalchemy", "strawberry"}


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("layer", ["domain", "application"])
def test_the_inner_layers_know_no_framework(layer: str) -> None:
    for path in FAMILY.joinpath(layer).glob("*.py"):
        assert not {name.partition(".")[0] for name in imported(path)} & FRAMEWORKS, path


@pytest.mark.parametrize(
    ("layer", "known"),
    [("domain", ("family.domain",)), ("application", ("family.domain", "family.application"))],
)
def test_the_inner_layers_know_no_outer_one(layer: str, known: tuple[str, ...]) -> None:
    for path in FAMILY.joinpath(layer).glob("*.py"):
        ours = [name for name in imported(path) if name.startswith("family")]
        assert all(name.startswith(known) for name in ours), path


def test_neither_handlers_nor_repositories_know_of_the_outbox() -> None:
    for path in (*FAMILY.glob("application/*.py"), FAMILY / "infrastructure/repositories.py"):
        assert "outbox" not in path.read_text().lower(), path
