"""Finds what a user names as `path.to.module:name`."""

import asyncio
import importlib
import inspect
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from postroom.cli.errors import CommandError, missing_extra, raised_by_user
from postroom.errors import ConfigurationError
from postroom.redaction import mask

logger = logging.getLogger("postroom.worker")


async def load(target: str, *kinds: type[Any]) -> Any:
    """Import an object of one of these kinds, or call the function that makes it.

    Modules are looked for in the working directory too. Raises CommandError.
    """
    module_name, _, path = target.partition(":")
    wanted = " or a ".join(kind.__name__ for kind in kinds)
    if not module_name or not path or module_name.startswith("."):
        raise CommandError(f"{target!r} is no path.to.module:name of a {wanted}.")
    try:
        found = await _find(module_name, path, kinds)
    except CommandError:
        raise
    except ConfigurationError as error:  # of the user's code, which knows what is wrong
        raise CommandError(mask(str(error))) from error
    except (KeyboardInterrupt, asyncio.CancelledError):  # Ctrl-C, or a signal
        raise
    except BaseException as error:  # a SystemExit, too: another start would end the same way
        logger.debug("postroom: cannot load %s", target, exc_info=True)
        raise CommandError(f"cannot load {target}: {raised_by_user(error)}") from error
    if not isinstance(found, kinds):
        raise CommandError(f"{target} is a {type(found).__name__}, not a {wanted}.")
    return found


async def _find(module_name: str, path: str, kinds: tuple[type[Any], ...]) -> Any:
    found: Any = _import(module_name)
    for name in path.split("."):
        if not hasattr(found, name):
            raise CommandError(f"module {module_name} has no {path!r}. {_candidates(found, kinds)}")
        found = getattr(found, name)
    return await _make(found) if _is_factory(found) else found


def _is_factory(found: Any) -> bool:
    """Tell whether a function can be called as it is."""
    if inspect.isclass(found) or not callable(found):
        return False
    try:
        inspect.signature(found).bind()
    except (TypeError, ValueError):
        return False
    return True


async def _make(factory: Callable[[], Any]) -> Any:
    try:
        made = factory()
        return await made if inspect.isawaitable(made) else made
    except ModuleNotFoundError as error:
        if install := missing_extra(error):
            raise install from error
        raise


def _import(name: str) -> Any:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        install = missing_extra(error)
        if install is not None:
            raise install from error
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise CommandError(
                f"there is no module {error.name!r}, neither installed nor in {here}."
            ) from error
        raise


def _candidates(module: Any, kinds: tuple[type[Any], ...]) -> str:
    names = [
        name for name, value in getattr(module, "__dict__", {}).items() if isinstance(value, kinds)
    ]
    return f"It has {', '.join(names)}." if names else "Check the spelling."
