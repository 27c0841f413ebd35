"""Equality that also compares types, all the way down."""

from collections import OrderedDict
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cached_property
from inspect import getattr_static
from types import NoneType
from typing import Any
from uuid import UUID

NOTHING = object()
_WITHOUT_PARTS = frozenset((NoneType, bool, int, float, str, bytes, Decimal, UUID, date, timedelta))
_STATE = {"_sa_instance_state", "_postroom_raised"}  # of an entity: no values of its own


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal and of the same types, parts included.

    Two aware datetimes are the same when wall clock and UTC offset are: `==` says no within the
    hour that a zone repeats, and cannot see that a zone was replaced by its offset.
    """
    if type(a) is not type(b):  # asyncpg's UUID is a subclass that stands for the same
        return isinstance(a, UUID) and isinstance(b, UUID) and a == b
    if type(a) in _WITHOUT_PARTS:
        return bool(a == b)
    if isinstance(a, Enum):  # a member may be a dataclass, too
        return a is b
    if isinstance(a, datetime | time):
        return _wall_clock(a) == _wall_clock(b) and a.utcoffset() == b.utcoffset()
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, OrderedDict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, dict | AbstractSet):
        return len(a) == len(b) and _same_members(a, b)
    if (parts := parts_of(a)) is not None:
        return same(parts, parts_of(b)) and same(unstored_of(a), unstored_of(b))
    return bool(a == b)


def parts_of(value: Any) -> dict[str, Any] | None:
    """The fields of a dataclass or a pydantic model, by name."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name, NOTHING) for field in fields(value)}
    if hasattr(type(value), "__pydantic_fields__"):
        names = type(value).__pydantic_fields__
        return {name: getattr(value, name) for name in names} | (value.model_extra or {})
    return None


def unstored_of(value: Any) -> dict[str, Any]:
    """The attributes of a dataclass, and the private ones of a model, that are not stored."""
    if not is_dataclass(value):
        return getattr(value, "__pydantic_private__", None) or {}
    attributes = getattr(value, "__dict__", {})
    others = attributes.keys() - {*_STATE, *(field.name for field in fields(value))}
    return {name: attributes[name] for name in others if not _is_cached(type(value), name)}


def _is_cached(cls: type, name: str) -> bool:
    return isinstance(getattr_static(cls, name, None), cached_property)


def _wall_clock(moment: datetime | time) -> datetime | time:
    return moment.replace(tzinfo=None)


def _same_members(a: Any, b: Any) -> bool:
    left = {key: key for key in b}
    for key in a:
        twin = left.get(key, NOTHING)
        if not same(key, twin):  # equal by another type, or a datetime that `==` does not find
            twin = next((other for other in left if same(key, other)), NOTHING)
        if twin is NOTHING or (isinstance(a, dict) and not same(a[key], b[twin])):
            return False
        del left[twin]
    return True
