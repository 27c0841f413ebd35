"""docs/explanation/architecture.md: each module with the first paragraph of its docstring."""

import ast
from collections import defaultdict

from scripts.reference.blocks import ROOT, Block, Table, code

SOURCE = ROOT / "src/postroom"
OWN_TABLE = ("events/codec", "publishers/rabbitmq/amqp")
"""Folders below the top that have a table of their own."""


def blocks() -> dict[str, Block]:
    """Return a table for each folder. Its rows have the order of the page: that of reading."""
    tables = defaultdict[str, list[tuple[str, str]]](list)
    for path in sorted(SOURCE.rglob("*.py")):
        name = str(path.relative_to(SOURCE))
        if path.name != "__init__.py" or path.parent == SOURCE:
            text = ast.get_docstring(ast.parse(path.read_text())) or ""
            first = " ".join(text.partition("\n\n")[0].split())
            tables[_folder(name)].append((code(name), first))
    columns = "module", "what it does"
    return {f"modules {folder}": Table(columns, rows, True) for folder, rows in tables.items()}


def _folder(name: str) -> str:
    own = [folder for folder in OWN_TABLE if name.startswith(folder)]
    return [*own, name.partition("/")[0] if "/" in name else "postroom"][0]
