"""Enums and literals."""

from collections.abc import Hashable
from copy import deepcopy
from enum import Enum, Flag
from typing import Any, Literal, get_args, get_origin

from postroom.events.codec.contract import Codec, CodecOf, Convert, Json, as_stored, typed
from postroom.events.codec.unfit import Unfit, mismatch, shown, unreadable


def enum(tp: Any, codec_of: CodecOf) -> Codec | None:
    """The codec of an enum: by value."""
    if not (isinstance(tp, type) and issubclass(tp, Enum)):
        return None
    if issubclass(tp, Flag):
        return _flag(tp, codec_of(int))
    return _choice([(member, _member_json(member, codec_of)) for member in tp], tp.__name__, id)


def literal(tp: Any, codec_of: CodecOf) -> Codec | None:
    """The codec of a Literal."""
    if get_origin(tp) is not Literal:
        return None
    pairs = [(value, codec_of(type(value)).encode(value)) for value in get_args(tp)]
    return _choice(pairs, " or ".join(shown(value) for value, _ in pairs), _exact)


def freeze(json: Json) -> Hashable:
    """JSON as the key of a dict: equal for what is one value to JSONB, different otherwise."""
    if isinstance(json, bool):
        return (bool, json)
    if isinstance(json, float):
        return as_stored(json)
    if isinstance(json, list):
        return (list, *map(freeze, json))
    if isinstance(json, dict):
        return (dict, frozenset((key, freeze(value)) for key, value in json.items()))
    return json


def _choice(pairs: list[tuple[Any, Any]], expected: str, key: Convert) -> Codec:
    values = _by_json(pairs)
    jsons = {key(value): json for value, json in pairs}

    def encode(value: Any) -> Any:
        try:
            json = jsons[key(value)]
        except (KeyError, TypeError):  # another value, or one that no dict can look up
            raise mismatch(value, expected) from None
        return deepcopy(json) if isinstance(json, list | dict) else json

    def decode(json: Any) -> Any:
        try:
            return values[freeze(json)]
        except KeyError:
            raise unreadable(json, expected) from None

    shapes = frozenset(type(json) for _, json in pairs)
    return Codec(encode, decode, shapes, frozenset(type(value) for value, _ in pairs))


def _by_json(pairs: list[tuple[Any, Any]]) -> dict[Hashable, Any]:
    values: dict[Hashable, Any] = {}
    for value, json in pairs:
        other = values.setdefault(freeze(json), value)
        if other is not value and _exact(other) != _exact(value):
            problem = f"has {shown(other)} and {shown(value)}, which look the same in JSON"
            raise Unfit(problem, "Give one of them another value.")
    return values


def _flag(tp: type[Flag], number: Codec) -> Codec:
    def decode(json: int) -> Any:
        try:
            flags: Any = tp(json)
        except ValueError as error:
            raise unreadable(json, f"flags of {tp.__name__}") from error
        if type(flags) is not tp or flags.value != json:  # a boundary may drop unknown bits
            raise unreadable(json, f"flags of {tp.__name__}")
        return flags

    return typed(tp, int, lambda flags: number.encode(flags.value), decode)


def _member_json(member: Enum, codec_of: CodecOf) -> Any:
    try:
        return _value_json(member.value, codec_of)
    except Unfit as unfit:
        problem = f"uses {member}, and its value cannot be stored: it {unfit.problem}"
        raise Unfit(problem, "Give the member a str or an int as its value.") from unfit


def _value_json(value: Any, codec_of: CodecOf) -> Any:
    if type(value) is tuple:
        return [_value_json(part, codec_of) for part in value]
    return codec_of(type(value)).encode(value)


def _exact(value: Any) -> tuple[type, Any]:
    return type(value), value
