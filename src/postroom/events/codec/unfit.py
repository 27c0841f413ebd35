"""The words for what does not fit: a type, a value or a payload."""

import reprlib
from enum import Enum
from typing import Any, NoReturn

_LONGEST_PATH = 6
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


def mismatch(value: Any, expected: str) -> Unfit:
    """For a value of another type than the annotation says."""
    kind = type(value).__name__
    way_out = "pass .value" if isinstance(value, Enum) else f"pass {expected}"
    problem = f"is {shown(value)} ({kind}), not {expected}"
    return Unfit(problem, f"Annotate the field as {kind}, or {way_out}.")


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
