"""Unions: the type of the value decides when writing, the shape of the JSON when reading.

Dataclasses have one shape. A tag distinguishes them: a field of Literal type.
"""

from collections.abc import Hashable
from contextlib import suppress
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin

from postroom.events.codec.choices import freeze
from postroom.events.codec.classes import is_data_class
from postroom.events.codec.contract import Codec, CodecOf, Convert, as_stored
from postroom.events.codec.hints import field_hints, label, plain
from postroom.events.codec.unfit import PLAIN_JSON, Unfit, mismatch, unreadable

Arm: TypeAlias = tuple[Any, Codec]

_JSON_ARMS: Final = (None, bool, int, float, str, list[Any], dict[str, Any])
_PLURALS: Final = {NoneType: "null", bool: "bools", str: "strings", list: "arrays", dict: "objects"}


def is_union(tp: Any) -> bool:
    """Whether the type has arms; Any has those of JSON."""
    return tp is Any or get_origin(tp) in (Union, UnionType)


def union(tp: Any, codec_of: CodecOf) -> Codec | None:
    """The codec of a union, or a refusal of arms that look the same in JSON."""
    if not is_union(tp):
        return None
    arms = [(arm, codec_of(arm)) for arm in _with_one_literal(_flat(tp))]
    shapes = frozenset(shape for _, codec in arms for shape in codec.shapes)
    readers = {shape: _reader(shape, arms, codec_of) for shape in shapes}
    if float in shapes:
        readers.setdefault(int, readers[float])  # JSONB writes 1e22 as an integer
    expected = PLAIN_JSON if tp is Any else " or ".join(label(arm) for arm, _ in arms)
    return Codec(_encoder(arms, expected), _decoder(readers, expected), shapes)


def _flat(tp: Any) -> list[Any]:
    """The arms, with those of unions within the union."""
    tp = plain(tp)
    if not is_union(tp):
        return [tp]
    arms = _JSON_ARMS if tp is Any else get_args(tp)
    return list(dict.fromkeys(inner for arm in arms for inner in _flat(arm)))


def _with_one_literal(arms: list[Any]) -> list[Any]:
    """The arms, with all literals, and None beside them, as one."""
    literals = [arm for arm in arms if get_origin(arm) is Literal]
    if not literals:
        return arms
    if NoneType in arms:
        literals.append(NoneType)
    others = [arm for arm in arms if arm not in literals]
    values = [value for arm in literals for value in get_args(arm) or (None,)]
    return [Literal[*values], *others]


def _encoder(arms: list[Arm], expected: str) -> Convert:
    encoders = [(codec, _arm_encoder(codec, arms)) for _, codec in arms]
    exact = {kind: encode for codec, encode in encoders for kind in codec.types}
    tolerant = [(codec.tolerates, encode) for codec, encode in encoders]

    def encode(value: Any) -> Any:
        convert = exact.get(type(value))
        if convert is not None:
            return convert(value)
        for kinds, tolerate in tolerant:
            if isinstance(value, kinds):
                with suppress(Unfit):
                    return tolerate(value)
        raise mismatch(value, expected)

    return encode


def _arm_encoder(codec: Codec, arms: list[Arm]) -> Convert:
    """The arm's own, unless another arm would read what JSONB makes of its numbers."""
    has_rival = any(int in other.shapes for _, other in arms if other is not codec)
    if float not in codec.shapes or not has_rival:
        return codec.encode

    def encode(value: Any) -> Any:
        number = codec.encode(value)
        if type(number) is float and type(as_stored(number)) is int:
            problem = f"is {number!r}, which the database gives back as an int"
            raise Unfit(problem, "Pass an int, or use an event class with a field of type float.")
        return number

    return encode


def _decoder(readers: dict[type, Convert], expected: str) -> Convert:
    def decode(json: Any) -> Any:
        read = readers.get(type(json))
        if read is None:
            raise unreadable(json, expected)
        return read(json)

    return decode


def _reader(shape: type, arms: list[Arm], codec_of: CodecOf) -> Convert:
    owners = [(tp, codec) for tp, codec in arms if shape in codec.shapes]
    if len(owners) == 1:
        return owners[0][1].decode
    if by_tag := _tag_reader(owners, codec_of):
        return by_tag
    names = " and ".join(label(tp) for tp, _ in owners)
    problem = f"is ambiguous: {names} are both {_PLURALS.get(shape, 'numbers')} in JSON"
    if not all(is_data_class(tp) for tp, _ in owners):
        raise Unfit(problem, "Use one of them, or two fields.")
    tag = "Give each dataclass a Literal field with a value of its own, or use two fields."
    raise Unfit(problem, tag)


def _tag_reader(owners: list[Arm], codec_of: CodecOf) -> Convert | None:
    """A decoder that picks the dataclass by its tag; None when they share no tag."""
    if not all(is_data_class(tp) for tp, _ in owners):
        return None
    tags = [_literals(cls, codec_of) for cls, _ in owners]
    for name in tags[0]:
        groups = [of_class.get(name, frozenset()) for of_class in tags]
        if all(groups) and sum(map(len, groups)) == len(frozenset().union(*groups)):
            pairs = zip(groups, owners, strict=True)
            arms = {value: codec.decode for group, (_, codec) in pairs for value in group}
            return _by_tag(name, arms)
    return None


def _literals(cls: type, codec_of: CodecOf) -> dict[str, frozenset[Hashable]]:
    """The fields of Literal type, by their name in JSON, and their values."""
    hints = {field: plain(hint) for field, hint in field_hints(cls).items()}
    names = codec_of.names(cls, hints)
    return {
        names[field]: frozenset(freeze(codec_of(type(v)).encode(v)) for v in get_args(hint))
        for field, hint in hints.items()
        if get_origin(hint) is Literal
    }


def _by_tag(name: str, arms: dict[Hashable, Convert]) -> Convert:
    def decode(json: dict[str, Any]) -> Any:
        arm = arms.get(freeze(json.get(name, {})))
        if arm is None:
            raise unreadable(json, f"an object with a known {name!r}")
        return arm(json)

    return decode
