"""Reads annotations, and words the error for one that cannot be kept."""

import inspect
import re
from collections import abc
from dataclasses import fields
from pathlib import PurePath
from types import NoneType
from typing import Annotated, Any, ClassVar, Final, NewType, get_args, get_origin, get_type_hints

from postroom.events.codec.unfit import Unfit, Unresolved

_MODULES = re.compile(r"(?:\w+\.)+(?=[A-Za-z])|<locals>\.")
_REMEDIES: Final = (
    ((PurePath, str), "Use str."),
    ((bytes, bytearray, memoryview), "Use bytes."),
    (abc.Mapping, "Say dict, or use a dataclass."),
    (tuple, "Use a frozen dataclass."),
    (abc.Set, "Say set or frozenset."),
    (abc.Iterable, "Say list or tuple."),
    (object, "Use a dataclass with concrete types, or convert it to str."),
)


def plain(tp: Any) -> Any:
    """The type behind Annotated, Final, NewType and `type X = …`."""
    if get_origin(tp) in (Annotated, Final):
        return plain(get_args(tp)[0])
    if isinstance(tp, NewType):
        return plain(tp.__supertype__)
    if type(tp).__name__ == "TypeAliasType":  # of typing from 3.12 on, or of typing_extensions
        return plain(tp.__value__)
    if tp is None:
        return NoneType
    return Any if tp is object else tp


def label(tp: Any) -> str:
    """A type as its author would write it."""
    if isinstance(tp, type) and get_origin(tp) is None:
        return "None" if tp is NoneType else tp.__name__
    return _MODULES.sub("", repr(tp))


def refusal(tp: Any) -> Unfit:
    """For a type that nothing here can restore."""
    remedy = "Use concrete types; a type that refers to itself has to be a dataclass."
    if isinstance(origin := get_origin(tp) or tp, type):
        remedy = next(text for kinds, text in _REMEDIES if issubclass(origin, kinds))
    return Unfit(f"uses {label(tp)}, which cannot be restored exactly from JSON", remedy)


def field_hints(cls: Any) -> dict[str, Any]:
    """The types of a dataclass's fields, by name."""
    try:
        hints = _resolved(cls)
    except Exception as error:
        missing = getattr(error, "name", None) or str(error)
        path = tuple(field.name for field in fields(cls) if missing in str(field.type))[:1]
        remedy = "Define or import the name at the module's top level, not under TYPE_CHECKING."
        raise Unresolved(f"has an annotation without a meaning: {error}", remedy, path) from error
    if "__dataclass_fields__" not in vars(cls):
        _refuse_annotations(cls, hints)
    return {field.name: hints[field.name] for field in fields(cls)}


def _resolved(cls: type) -> dict[str, Any]:
    try:
        return get_type_hints(cls)
    except NameError:  # a class inside a function may refer to itself
        return get_type_hints(cls, localns={cls.__name__: cls})


def _refuse_annotations(cls: Any, hints: dict[str, Any]) -> None:
    """In a subclass that forgot its @dataclass, they would not be fields."""
    is_frozen = cls.__dataclass_params__.frozen
    for name in inspect.get_annotations(cls):
        if ClassVar not in (hints[name], get_origin(hints[name])):
            problem = f"is no field, since {cls.__name__} itself is not a dataclass"
            decorator = "@dataclass(frozen=True)" if is_frozen else "@dataclass"
            raise Unfit(problem, f"Put {decorator} on {cls.__name__}.", (name,))
