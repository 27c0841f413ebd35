"""`auto_discover_handlers`: imports all modules of a package."""

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType


def auto_discover_handlers(package: str | ModuleType) -> list[str]:
    """Import all modules of a package, so that handlers in them register. Returns their names."""
    root = importlib.import_module(package) if isinstance(package, str) else package
    return list(_import_below(root)) if hasattr(root, "__path__") else [root.__name__]


def _import_below(package: ModuleType) -> Iterator[str]:
    for name in sorted(_children(package)):
        child = importlib.import_module(f"{package.__name__}.{name}")
        yield child.__name__
        yield from _import_below(child)


def _children(package: ModuleType) -> Iterator[str]:
    places = list(getattr(package, "__path__", ()))
    names = {module.name for module in pkgutil.iter_modules(places)}
    for place in filter(Path.is_dir, map(Path, places)):
        # A folder without an __init__.py is a package too, and pkgutil does not see it.
        names |= {source.parent.name for source in place.glob("*/*.py")}
    yield from filter(str.isidentifier, names)
