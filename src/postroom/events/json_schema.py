"""JSON Schema of the payload of an event class, for consumers and for people."""

import re
from collections.abc import Mapping, MutableMapping
from dataclasses import MISSING, fields
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag
from types import NoneType
from typing import Any, Final, Literal, get_args, get_origin
from uuid import UUID

from postroom.events.codec import codec_for
from postroom.events.codec.classes import is_data_class
from postroom.events.codec.hints import field_hints, plain
from postroom.events.codec.naming import json_names
from postroom.events.codec.unions import is_union
from postroom.events.envelope import version_name
from postroom.events.options import EventOptions, event_type_of, event_version_of

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
SCALARS: Final[Mapping[Any, Mapping[str, str]]] = {
    NoneType: {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    Decimal: {"type": "string", "description": "a decimal number"},
    UUID: {"type": "string", "format": "uuid"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    date: {"type": "string", "format": "date"},
    time: {"type": "string", "description": "a time, with or without an offset: 12:30:00"},
    datetime: {"type": "string", "format": "date-time"},
    timedelta: {"type": "string", "pattern": r"^-?PT[0-9]+(\.[0-9]{1,6})?S$"},
}


def json_schema(event_class: type) -> dict[str, Any]:
    """Return the JSON Schema of an event class's payloads, as the class writes them."""
    writer = _Writer(event_class)
    is_model = hasattr(event_class, "model_json_schema")
    schema = writer.model(event_class) if is_model else writer.data_class(event_class)
    if event_version_of(event_class) > 1:
        schema["properties"].setdefault(version_name(event_class), {"type": "integer"})
    definitions = {"$defs": writer.definitions} if writer.definitions else {}
    return {"$schema": DIALECT, **schema, "title": event_type_of(event_class), **definitions}


class _Writer:
    """Writes the schemas of one event class and of all that it holds."""

    def __init__(self, root: type) -> None:
        self._root, self._options = root, EventOptions.of(root)
        self.definitions: dict[str, Any] = {}

    def model(self, cls: Any) -> dict[str, Any]:
        """Return pydantic's own schema, with the names that the payload has."""
        schema: dict[str, Any] = cls.model_json_schema(by_alias=False)
        self.definitions |= schema.pop("$defs", {})
        if cls is not self._root or "properties" not in schema:
            return schema
        names = self._names(cls, schema["properties"])
        schema["properties"] = {names[name]: each for name, each in schema["properties"].items()}
        schema["required"] = [names[name] for name in schema.get("required", ())]
        return schema

    def data_class(self, cls: Any) -> dict[str, Any]:
        hints = field_hints(cls)
        names = self._names(cls, hints)
        needed = [each for each in fields(cls) if each.default is each.default_factory is MISSING]
        return {
            "type": "object",
            "properties": {names[name]: self._of(hint) for name, hint in hints.items()},
            "required": [names[each.name] for each in needed],
        }

    def _names(self, cls: Any, names: Any) -> dict[str, str]:
        rename = (self._options.rename or {}) if cls is self._root else {}
        known = {name: value for name, value in rename.items() if name in names}
        return json_names(names, self._options.case, known)

    def _of(self, tp: Any) -> dict[str, Any]:
        tp = plain(tp)
        if tp is Any:
            return {}
        if is_union(tp):
            return {"anyOf": [self._of(arm) for arm in get_args(tp)]}
        if get_origin(tp) is Literal:
            return {"enum": [codec_for(type(each)).encode(each) for each in get_args(tp)]}
        if is_data_class(tp) or hasattr(tp, "model_json_schema"):
            return self._reference(tp)
        if isinstance(tp, type) and issubclass(tp, Enum):
            return _enum(tp)
        return dict(SCALARS[tp]) if tp in SCALARS else self._container(tp)

    def _reference(self, cls: Any) -> dict[str, Any]:
        """Refer to a class that is defined once, also one that holds itself."""
        name = re.sub(r"\W+", "_", cls.__name__)
        if name not in self.definitions:
            self.definitions[name] = {}  # while it is being written
            self.definitions[name] = self.data_class(cls) if is_data_class(cls) else self.model(cls)
        return {"$ref": f"#/$defs/{name}"}

    def _container(self, tp: Any) -> dict[str, Any]:
        kind, arguments = get_origin(tp) or tp, get_args(tp)
        if kind in (dict, Mapping, MutableMapping):
            item = self._of(arguments[1]) if arguments else {}
            return {"type": "object"} | ({"additionalProperties": item} if item else {})
        if kind is tuple and arguments and arguments[-1] is not ...:
            return {"type": "array", "prefixItems": [self._of(each) for each in arguments]}
        unique = {"uniqueItems": True} if kind in (set, frozenset) else {}
        return {"type": "array", "items": self._of(arguments[0]) if arguments else {}} | unique


def _enum(tp: type[Enum]) -> dict[str, Any]:
    if issubclass(tp, Flag):
        return {"type": "integer"}
    return {"enum": [codec_for(tp).encode(member) for member in tp]}
