"""What the parts of the codec share: the type `Codec`, JSON values, the walk through containers."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from types import NoneType
from typing import Any, Final, Protocol, TypeAlias

from postroom.events.codec.unfit import Unfit, mismatch, relocate, unreadable

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Convert: TypeAlias = Callable[[Any], Any]

ALL_SHAPES: Final = frozenset((NoneType, bool, int, float, str, list, dict))
json_text: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode


@dataclass(frozen=True, slots=True)
class Codec:
    """Turns values of one type into JSON and back."""

    encode: Convert
    decode: Convert
    shapes: frozenset[type]  # the JSON builtins that `encode` makes
    types: frozenset[type] = frozenset()  # what a union sends here
    tolerates: tuple[type, ...] = ()  # what a union sends here when no arm has exactly that type


class CodecOf(Protocol):
    """Gives the codec of a type, and the names that a class's fields have in JSON."""

    root: Any

    def __call__(self, tp: Any, /) -> Codec: ...
    def names(self, cls: type, fields: Iterable[str], /) -> dict[str, str]: ...


def typed(kind: type, shape: type, write: Convert, read: Convert, name: str = "") -> Codec:
    """The codec of exactly one type, that has one shape in JSON."""
    name = name or kind.__name__

    def encode(value: Any) -> Any:
        if type(value) is not kind:
            raise mismatch(value, name)
        return write(value)

    def decode(json: Any) -> Any:
        if type(json) is not shape:
            raise unreadable(json, name)
        return read(json)

    return Codec(encode, decode, frozenset((shape,)), frozenset((kind,)))


def each(convert: Convert, values: Iterable[Any]) -> list[Any]:
    """Convert every value; a misfit is told with its index."""
    converted: list[Any] = []
    try:
        for value in values:
            converted.append(convert(value))
    except (Unfit, RecursionError) as error:
        relocate(error, f"[{len(converted)}]")
    return converted


def as_stored(number: float) -> int | float:
    """The number that JSONB gives back: it writes 1e22 as 10000000000000000000000."""
    if abs(number) >= 1e16 and number.is_integer():  # from 1e16 on, repr() writes an exponent
        return int(Decimal(repr(number)))
    return number
