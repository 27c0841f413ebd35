"""docs/reference/api: the index of the public names, and the tree of the errors."""

import re
from collections import Counter, defaultdict
from importlib import import_module
from pkgutil import iter_modules
from textwrap import TextWrapper

import postroom
from postroom import errors
from scripts.reference.blocks import ROOT, Block, PageError, text_block

FOLDER = ROOT / "docs/reference/api"
DIRECTIVE = re.compile(r"^::: (\S+)$", re.MULTILINE)
MODULES = (
    "postroom",
    *(f"postroom.{it}" for it in ("testing", "operations", "inspection", "console")),
)
PACKAGES = ("postroom.publishers", "postroom.integrations")
"""Packages of which users import modules: those with an `__all__`."""
WRAP = TextWrapper(150, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def index() -> dict[str, Block]:
    """Return the links to the names on each page of the API. Each public name is on one."""
    pages = {path.stem: DIRECTIVE.findall(path.read_text()) for path in FOLDER.glob("*.md")}
    public = Counter(_public_names())
    listed = Counter(name for names in pages.values() for name in names)
    if wrong := (public - listed) + (listed - public):
        raise PageError(f"and its pages have to have each public name once: {sorted(wrong)}")
    return {page: text_block(_links(names)) for page, names in pages.items() if names}


def error_tree() -> dict[str, Block]:
    """Return the tree of the errors, as their module draws it."""
    tree = (errors.__doc__ or "").partition("\n\n")[2]
    return {"tree": text_block(f"```text\n{tree}```")}


def _links(names: list[str]) -> str:
    modules = defaultdict[str, list[str]](list)
    for name in names:
        module, _, attribute = name.rpartition(".")
        modules[module].append(f"[`{attribute}`][{name}]")
    lines = [f"- `{module}`: {', '.join(links)}" for module, links in modules.items()]
    return "\n".join(map(WRAP.fill, lines))


def _public_names() -> list[str]:
    modules = [*MODULES]
    for package in PACKAGES:
        found = iter_modules(import_module(package).__path__, f"{package}.")
        modules += [each.name for each in found]
    names = [f"{it}.{name}" for it in modules for name in getattr(import_module(it), "__all__", ())]
    others = [name for name in vars(errors) if name.endswith("Error")]
    return [*names, *(f"postroom.errors.{it}" for it in others if it not in postroom.__all__)]
