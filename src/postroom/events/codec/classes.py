"""Dataclasses: every field by its name, rebuilt by the class itself."""

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, NamedTuple

from postroom.events.codec.contract import Codec, CodecOf, Convert, typed
from postroom.events.codec.hints import field_hints
from postroom.events.codec.proof import prove
from postroom.events.codec.unfit import Unfit, relocate, unreadable


class _Part(NamedTuple):
    """A field: its name in JSON, its name in Python, its codec, whether a payload must have it."""

    key: str
    name: str
    codec: Codec
    required: bool


def is_data_class(tp: Any) -> bool:
    """Whether the type is a dataclass; an instance of one is not."""
    return isinstance(tp, type) and is_dataclass(tp)


def data_class(tp: Any, codec_of: CodecOf) -> Codec | None:
    """The codec of a dataclass."""
    if not is_data_class(tp):
        return None
    parts = _parts(tp, codec_of)
    encode, decode = _encoder(parts), _decoder(tp, parts)
    if _may_hold_more(tp):
        encode = _proven(tp, encode, decode)
    return typed(tp, dict, encode, decode)


def _parts(cls: Any, codec_of: CodecOf) -> list[_Part]:
    hints = field_hints(cls)
    keys = codec_of.names(cls, hints)
    parts = []
    for field in fields(cls):
        required = field.init and field.default is field.default_factory is MISSING
        try:
            codec = codec_of(hints[field.name])
        except Unfit as unfit:
            relocate(unfit, field.name)
        parts.append(_Part(keys[field.name], field.name, codec, required))
    return parts


def _encoder(parts: list[_Part]) -> Convert:
    plan = [(part.key, part.name, part.codec.encode) for part in parts]

    def encode(value: Any) -> dict[str, Any]:
        document, name = {}, ""
        try:
            for key, name, convert in plan:
                document[key] = convert(getattr(value, name))
        except (Unfit, RecursionError) as error:
            relocate(error, name)
        except AttributeError as error:
            raise Unfit("has no value", "Set it when the object is made.", (name,)) from error
        return document

    return encode


def _proven(cls: type, encode: Convert, decode: Convert) -> Convert:
    """Encode, and prove what `__init__` of the class's own, or other attributes, may lose."""
    names = frozenset(field.name for field in fields(cls))
    always = _has_own_init(cls)

    def write(value: Any) -> dict[str, Any]:
        document: dict[str, Any] = encode(value)
        if always or not names.issuperset(getattr(value, "__dict__", ())):
            prove(value, _rebuilt(cls, decode, document))
        return document

    return write


def _may_hold_more(cls: Any) -> bool:
    """Whether anything may set attributes that are no fields, short of object.__setattr__()."""
    is_frozen = cls.__dataclass_params__.frozen
    return _has_own_init(cls) or hasattr(cls, "__post_init__") or not is_frozen


def _has_own_init(cls: Any) -> bool:
    """Whether `__init__` is from a file, not made by @dataclass."""
    code = getattr(cls.__init__, "__code__", None)
    return code is None or code.co_filename != "<string>"


def _rebuilt(cls: type, decode: Convert, document: dict[str, Any]) -> Any:
    try:
        return decode(document)
    except Unfit as unfit:
        cause = unfit.__cause__ or unfit
        problem = f"cannot be built again from its fields: {type(cause).__name__}: {cause}"
        remedy = f"Have {cls.__name__}.__init__ take each field, by name and as it is stored."
        raise Unfit(problem, remedy) from cause


def _decoder(cls: type, parts: list[_Part]) -> Convert:
    to_init = _init_parameters(cls, {part.name for part in parts})

    def decode(json: dict[str, Any]) -> Any:
        values = _stored_values(parts, json)
        try:
            made = cls(**{name: value for name, value in values.items() if name in to_init})
        except Exception as error:
            raise unreadable(json, f"{cls.__name__} accepts it ({error})") from error
        for name, value in values.items():  # as stored, whatever `__post_init__` made of it
            object.__setattr__(made, name, value)
        return made

    return decode


def _init_parameters(cls: type, names: Iterable[str]) -> Mapping[str, Any]:
    """What `__init__` takes; nothing but fields may be needed to rebuild an object."""
    parameters = inspect.signature(cls).parameters
    for name, parameter in parameters.items():
        needed = parameter.default is parameter.empty and "VAR" not in parameter.kind.name
        if needed and name not in names:
            problem = f"is needed to build {cls.__name__}, but is no field, and so not stored"
            raise Unfit(problem, "Give it a default, or make it a field.", (name,))
    return parameters


def _stored_values(parts: list[_Part], document: Mapping[str, Any]) -> dict[str, Any]:
    values = {}
    for key, name, codec, required in parts:
        if key in document:
            try:
                values[name] = codec.decode(document[key])
            except (Unfit, RecursionError) as error:
                relocate(error, name)
        elif required:
            remedy = "Give the field a default, or write an upcaster."
            raise Unfit("is missing, and has no default", remedy, (name,))
    return values
