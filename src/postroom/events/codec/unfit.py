"""The texts of errors for types, values and payloads that do not fit."""

import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final, NoReturn
from uuid import UUID

PLAIN_JSON: Final = "plain JSON"
_LONGEST_PATH = 6
_TEXTS = (str, bytes, bytearray, memoryview)
_ANNOTATIONS = frozenset((bool, int, float, str, bytes, Decimal, UUID, date, time, datetime))
_ANNOTATIONS |= {timedelta, list, tuple, set, frozenset, dict}
_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 80


class Unfit(Exception):  # noqa: N818  an answer within the package; its callers raise the errors
    """Raised when something does not fit: where, why, and what to do."""

    def __init__(self, problem: str, remedy: str = "", path: tuple[str, ...] = ()) -> None:
        super().__init__(problem)
        self.problem, self.remedy, self.path = problem, remedy, path

    @property
    def where(self) -> str:
        """The path as one writes it in Python: `items[3].price`."""
        parts = [part if part.startswith("[") else f".{part}" for part in self.path]
        text = "".join(parts[:_LONGEST_PATH]).removeprefix(".")
        return text if len(parts) <= _LONGEST_PATH else f"{text}…"

    def __str__(self) -> str:
        return " ".join(filter(None, (self.where, f"{self.problem}.", self.remedy)))


class Unresolved(Unfit):
    """Raised for an annotation that has no meaning, at least not yet."""


def mismatch(value: Any, expected: str) -> Unfit:
    """For a value of another type than the annotation says."""
    kind = type(value).__name__
    remedy = _for_json(value, kind) if expected == PLAIN_JSON else _for_field(value, kind, expected)
    return Unfit(f"is {shown(value)} ({kind}), not {expected}", remedy)


def _for_field(value: Any, kind: str, expected: str) -> str:
    if value is None:
        return f"Annotate the field as … | None, or pass {expected}."
    if not _can_be_annotated(type(value)):
        return f"Pass {expected}."
    has_value = isinstance(value, Enum) and type(value.value).__name__ == expected
    return f"Annotate the field as {kind}, or pass {'.value' if has_value else expected}."


def _for_json(value: Any, kind: str) -> str:
    substitute = "a str"
    if isinstance(value, Enum):
        substitute = "its .value"
    elif isinstance(value, Mapping) or is_dataclass(value) or hasattr(value, "model_dump"):
        substitute = "a dict"
    elif isinstance(value, Iterable) and not isinstance(value, _TEXTS):
        substitute = "a list"
    if not _can_be_annotated(type(value)):
        return f"Pass {substitute}."
    return f"Pass {substitute}, or use an event class with a field of type {kind}."


def _can_be_annotated(kind: type) -> bool:
    is_class = is_dataclass(kind) or issubclass(kind, Enum) or hasattr(kind, "model_dump")
    return is_class or kind in _ANNOTATIONS


def unreadable(value: Any, expected: str) -> Unfit:
    """For JSON that `encode` does not write."""
    problem = f"is stored as {shown(value)}, not as {expected}"
    return Unfit(problem, "Correct the payload, or write an upcaster if an older version wrote it.")


def shown(value: Any) -> str:
    """A value in few characters."""
    try:
        return _repr.repr(value)
    except ValueError:  # an int that is too long to be written
        return "a very long int"


def relocate(error: Unfit | RecursionError, part: str) -> NoReturn:
    """Raise the error again, one step further out."""
    if isinstance(error, RecursionError):
        problem = "contains itself, or is nested too deeply"
        raise Unfit(problem, "Refer to other objects by their id.", (part,)) from None
    error.path = (part, *error.path)
    raise error
