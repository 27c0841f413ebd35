"""docs/reference/log-events.md: each line that the code logs, read from its source."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import product

from scripts.reference.architecture import SOURCE
from scripts.reference.blocks import Block, Hand, Table, code

LEVELS = ("CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG")
OWN_TABLE = ("postroom.relay", "postroom.publishers", "postroom.store", "postroom.worker")
"""The loggers that have a table of their own."""
PLACEHOLDER = re.compile(r"%(?:\(\w+\))?[-+ #0-9.]*[a-zA-Z]")
MEANING = "meaning, and what to do"
Names = Mapping[str, ast.expr]


def blocks() -> dict[str, Block]:
    """Return the tables of the lines. Their rows have the order of the page."""
    lines = defaultdict[tuple[str, str], set[str]](set)
    for logger, level, text in _lines():
        lines[logger, text].add(level)
    tables = defaultdict[str, list[tuple[str, ...]]](list)
    for (logger, text), levels in lines.items():
        listed = ", ".join(sorted(levels, key=LEVELS.index))
        own = logger in OWN_TABLE
        row = (code(text), *([] if own else [code(logger)]), listed, Hand())
        tables[logger if own else "others"].append(row)
    return {
        name: Table(
            ("line", *(["logger"] if name == "others" else []), "level", MEANING), rows, True
        )
        for name, rows in tables.items()
    }


def _lines() -> Iterator[tuple[str, str, str]]:
    """Return the logger, the level and the text of each line, with … for each value in it."""
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
        tree = ast.parse(path.read_text())
        assigned = sorted(_assigned(tree), key=lambda each: each[0])
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                names = {name: value for line, name, value in assigned if line < call.lineno}
                made = names.get(ast.unparse(call.func.value))
                if isinstance(made, ast.Call) and made.args and "getLogger" in ast.unparse(made):
                    name = ast.unparse(made.args[0]).strip("'")
                    for level, text in _levels_and_texts(call.func.attr, call.args, names):
                        logger = module if name == "__name__" else name
                        yield logger, level, PLACEHOLDER.sub("…", text)


def _levels_and_texts(
    method: str, arguments: list[ast.expr], names: Names
) -> Iterator[tuple[str, str]]:
    levels = [{"exception": "ERROR"}.get(method, method.upper())]
    if method == "log":
        levels = [
            ast.unparse(each).removeprefix("logging.") for each in _leaves(arguments.pop(0), names)
        ]
    if set(levels) <= set(LEVELS):
        texts = [ast.literal_eval(each) for each in _leaves(arguments[0], names)]
        same = len(levels) == len(texts)  # two tables with the same keys
        yield from zip(levels, texts, strict=True) if same else product(levels, texts)


def _leaves(value: ast.expr, names: Names) -> list[ast.expr]:
    """Return the expressions that a value may come from: of a choice, a name or a table."""
    match value:
        case ast.IfExp():
            return [*_leaves(value.body, names), *_leaves(value.orelse, names)]
        case ast.Name() if value.id in names:
            return _leaves(names[value.id], names)
        case ast.Subscript() if isinstance(table := names.get(ast.unparse(value.value)), ast.Dict):
            return table.values
    return [value]


def _assigned(tree: ast.Module) -> Iterator[tuple[int, str, ast.expr]]:
    """Return what texts, levels and loggers are given a name: in which line, and which name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign | ast.Assign) and node.value is not None:
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            for name, value in pairs:
                if isinstance(value, ast.Constant | ast.IfExp | ast.Dict | ast.Call):
                    yield node.lineno, ast.unparse(name), value
