"""How deeply JSON may be nested: as deeply as the relay, pydantic and every consumer can read."""

from collections.abc import Mapping
from typing import Any, Final

from postroom.events.codec.unfit import Unfit

MAX_LEVELS: Final = 64


def check_nesting(document: Mapping[str, Any]) -> None:
    """Raise `Unfit` for an object of more than 64 levels; the object itself is the first one."""
    for name, value in document.items():
        if type(value) in (dict, list) and _is_deeper(value, MAX_LEVELS - 1):
            problem = f"is nested too deeply: a payload may have {MAX_LEVELS} levels"
            remedy = "Refer to other objects by their id, or store the inner levels as JSON text."
            raise Unfit(problem, remedy, (name,))


def _is_deeper(value: Any, levels: int) -> bool:
    if not levels:
        return True
    for part in value.values() if type(value) is dict else value:
        if type(part) in (dict, list) and _is_deeper(part, levels - 1):
            return True
    return False
