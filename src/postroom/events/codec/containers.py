"""Lists, tuples, sets and dicts."""

import json as json_module
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from functools import partial
from typing import Any, get_args, get_origin

from postroom.events.codec.contract import Codec, CodecOf, Convert, each, json_text, typed
from postroom.events.codec.unfit import Unfit, relocate, shown, unreadable


def container(tp: Any, codec_of: CodecOf) -> Codec | None:
    """The codec of a type that holds others; what it holds is plain JSON if it does not say."""
    kind, arguments = get_origin(tp) or tp, get_args(tp)
    if kind in (list, set, frozenset):
        return _many(kind, codec_of(*arguments or (Any,)))
    if kind in (dict, Mapping, MutableMapping):
        return _dict(*map(codec_of, arguments or (str, Any)))
    if kind is not tuple or any(getattr(part, "__unpacked__", False) for part in arguments):
        return None
    if tp is tuple or repr(tp) == "typing.Tuple" or arguments[-1:] == (...,):
        return _many(tuple, codec_of((arguments or (Any,))[0]))
    return _fixed([codec_of(argument) for argument in arguments])


def _many(kind: type, item: Codec) -> Codec:
    def read_set(json: list[Any]) -> Any:
        return kind(_distinct(each(item.decode, json)))

    def write_set(value: Any) -> list[Any]:
        items = sorted(each(item.encode, value), key=json_text)
        read_set(items)
        return items

    if kind in (set, frozenset):
        return typed(kind, list, write_set, read_set)
    return typed(kind, list, partial(each, item.encode), lambda json: kind(each(item.decode, json)))


def _fixed(items: list[Codec]) -> Codec:
    def walk(converts: list[Convert], values: Any) -> list[Any]:
        if len(values) != len(items):
            problem = f"has {len(values)} items, not {len(items)}"
            raise Unfit(problem, "Annotate the field as tuple[X, ...] for any number of items.")
        return each(lambda pair: pair[0](pair[1]), zip(converts, values, strict=True))

    encoders, decoders = [item.encode for item in items], [item.decode for item in items]
    return typed(tuple, list, partial(walk, encoders), lambda json: tuple(walk(decoders, json)))


def _dict(key: Codec, item: Codec) -> Codec:
    write_key, read_key = (key.encode, key.decode) if key.shapes == {str} else _texts(key)

    def read(json: dict[str, Any]) -> dict[Any, Any]:
        return dict(zip(_distinct(_keys(read_key, json)), _items(item.decode, json), strict=True))

    def write(value: dict[Any, Any]) -> dict[str, Any]:
        names = _distinct(_keys(write_key, value))
        if key.types != {str}:
            _distinct(_keys(read_key, names))
        return dict(zip(names, _items(item.encode, value), strict=True))

    return typed(dict, dict, write, read)


def _texts(key: Codec) -> tuple[Convert, Convert]:
    """A key that is no string as its JSON text, so that 1, True and "1" stay apart."""

    def read(text: str) -> Any:
        try:
            json = json_module.loads(text)
        except ValueError as error:
            raise unreadable(text, "JSON text") from error
        return key.decode(json)

    return lambda value: json_text(key.encode(value)), read


def _keys(convert: Convert, keys: Iterable[Any]) -> list[Any]:
    try:
        return each(convert, keys)
    except Unfit as unfit:
        _, is_choice, passing = unfit.remedy.rpartition(", or pass ")
        if is_choice:  # a key has no annotation of its own
            unfit.remedy = f"Pass {passing}"
        relocate(unfit, "keys()")


def _items(convert: Convert, document: dict[Any, Any]) -> Iterator[Any]:
    for key, value in document.items():
        try:
            yield convert(value)
        except (Unfit, RecursionError) as error:
            is_name = type(key) is str and key.isidentifier()
            relocate(error, key if is_name else f"[{shown(key)}]")


def _distinct(values: list[Any]) -> list[Any]:
    """Refuse what a set or a dict would drop.

    A time in the hour that a zone repeats and the same time in UTC are two to Python, but one
    when they come back, each with a fixed offset.
    """
    try:
        if len(set(values)) == len(values):
            return values
    except TypeError as error:
        raise unreadable(values, f"what can be looked up ({error})") from error
    raise Unfit("holds two that are equal when they come back", "Remove one of them.")
