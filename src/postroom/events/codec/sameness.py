"""Equality that also compares types, all the way down."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import datetime, time
from typing import Any
from uuid import UUID

_NOTHING = object()


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal and of the same types, parts included.

    Two aware datetimes are the same when wall clock and UTC offset are: `==` says no within the
    hour that a zone repeats, and cannot see that a zone was replaced by its offset.
    """
    if type(a) is not type(b):  # asyncpg's UUID is a subclass that stands for the same
        return isinstance(a, UUID) and isinstance(b, UUID) and a == b
    if isinstance(a, datetime | time):
        return _wall_clock(a) == _wall_clock(b) and a.utcoffset() == b.utcoffset()
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict | AbstractSet):
        return len(a) == len(b) and _same_members(a, b)
    if (parts := parts_of(a)) is not None:
        return same(parts, parts_of(b))
    return bool(a == b)


def parts_of(value: Any) -> dict[str, Any] | None:
    """The fields of a dataclass or a pydantic model, by name."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name, _NOTHING) for field in fields(value)}
    if hasattr(type(value), "__pydantic_fields__"):
        names = type(value).__pydantic_fields__
        return {name: getattr(value, name) for name in names} | (value.model_extra or {})
    return None


def _wall_clock(moment: datetime | time) -> datetime | time:
    return moment.replace(tzinfo=None)


def _same_members(a: Any, b: Any) -> bool:
    left = {key: key for key in b}
    for key in a:
        twin = left.get(key, _NOTHING)
        if not same(key, twin):  # equal by another type, or a datetime that `==` does not find
            twin = next((other for other in left if same(key, other)), _NOTHING)
        if twin is _NOTHING or (isinstance(a, Mapping) and not same(a[key], b[twin])):
            return False
        del left[twin]
    return True
