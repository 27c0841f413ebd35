"""The log lines that the code writes, read from its source."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.docs.pages import ROOT

SOURCE = ROOT / "src" / "postroom"
LEVELS = ("debug", "info", "warning", "error", "critical", "exception", "log")
PLACEHOLDER = re.compile(r"%[-+ #0-9.]*[a-zA-Z]")


class LogCall(NamedTuple):
    logger: str
    level: str
    """As the method is named: `log` if the level is computed."""
    text: str
    """With … for each placeholder; empty if the text is computed."""
    place: str


def log_calls() -> list[LogCall]:
    return sorted(each for path in SOURCE.rglob("*.py") for each in _calls_in(path))


def _calls_in(path: Path) -> Iterator[LogCall]:
    tree = ast.parse(path.read_text())
    module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
    texts = sorted(_assignments(tree))
    loggers: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and "getLogger" in ast.unparse(node.value):
            loggers |= dict(_logger_names(node, module))
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner, level = ast.unparse(node.func.value), node.func.attr
        if owner in loggers and level in LEVELS:
            argument = node.args[1 if level == "log" else 0]
            place = f"{path.relative_to(ROOT)}:{node.lineno}"
            known = {name: text for line, name, text in texts if line < node.lineno}
            yield LogCall(loggers[owner], level, _text(argument, known), place)


def _logger_names(node: ast.Assign, module: str) -> Iterator[tuple[str, str]]:
    """Return the loggers that an assignment makes, also as a part of several."""
    target = node.targets[0]
    pairs: list[tuple[ast.expr, ast.expr]] = [(target, node.value)]
    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
        pairs = list(zip(target.elts, node.value.elts, strict=True))
    for each, value in pairs:
        if isinstance(value, ast.Call) and "getLogger" in ast.unparse(value.func):
            [name] = value.args
            given = name.value if isinstance(name, ast.Constant) else module
            yield ast.unparse(each), str(given)


def _assignments(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Return texts that are given names: in which line, which name, which text."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign):
            continue
        target, value = node.targets[0], node.value
        pairs: list[tuple[ast.expr, ast.expr]] = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=False))
        for name, each in pairs:
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield node.lineno, ast.unparse(name), each.value


def _text(argument: ast.expr, texts: dict[str, str]) -> str:
    if isinstance(argument, ast.Constant):
        found = str(argument.value)
    else:
        found = texts.get(ast.unparse(argument), "")
    return PLACEHOLDER.sub("…", found)
