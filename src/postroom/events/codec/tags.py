"""Dataclasses that tell each other apart by a field of Literal type."""

from collections.abc import Hashable, Sequence
from typing import Any, Literal, get_args, get_origin

from postroom.events.codec.choices import freeze
from postroom.events.codec.classes import is_data_class
from postroom.events.codec.contract import CodecOf, Convert
from postroom.events.codec.hints import field_hints, plain
from postroom.events.codec.unfit import unreadable


def tag_reader(classes: Sequence[Any], codec_of: CodecOf) -> Convert | None:
    """A decoder that picks the class by its tag; None when the classes share no tag."""
    if not all(map(is_data_class, classes)):
        return None
    literals = [_literals(cls, codec_of) for cls in classes]
    for name in literals[0]:
        values = [of_class.get(name, frozenset()) for of_class in literals]
        if all(values) and sum(map(len, values)) == len(frozenset().union(*values)):
            tags = zip(values, map(codec_of, classes), strict=True)
            return _reader(name, {value: codec.decode for group, codec in tags for value in group})
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


def _reader(name: str, arms: dict[Hashable, Convert]) -> Convert:
    def decode(json: dict[str, Any]) -> Any:
        arm = arms.get(freeze(json.get(name, {})))
        if arm is None:
            raise unreadable(json, f"an object with a known {name!r}")
        return arm(json)

    return decode
