"""Who knows of whom: the outbox is nobody's business but that of the wiring."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

FAMILY = Path(__file__).parents[3] / "examples/family/family"
UNAWARE = [*FAMILY.glob("application/*.py"), FAMILY / "infrastructure" / "repositories.py"]


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
