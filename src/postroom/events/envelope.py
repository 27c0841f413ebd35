"""What postroom adds to a payload: version, id, time."""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, Final
from uuid import UUID

from postroom.errors import PayloadError
from postroom.events.codec import Unfit, codec_for, json_name
from postroom.events.options import (
    EventOptions,
    event_type_of,
    event_version_of,
    field_names,
)

VERSION: Final = "event_version"
_times: Final = codec_for(datetime)


def version_name(event_class: type) -> str:
    """The name of the version in a document."""
    return _names(event_class)[VERSION]


def stored_version(event_class: type, document: Mapping[str, Any]) -> Any:
    """Read the version a document says it has. One that says nothing is of version 1."""
    return document.get(version_name(event_class), 1)


def with_version(event_class: type, document: dict[str, Any]) -> dict[str, Any]:
    """Write a version above 1 into the document of an event whose class has no field for it."""
    name, version = _names(event_class)[VERSION], event_version_of(event_class)
    if VERSION in field_names(event_class):
        if document[name] != version:
            problem = f"is {document[name]!r}, and the class is of version {version}"
            raise Unfit(problem, "Leave it to its default.", (VERSION,))
    elif name in document:
        problem = "is an extra field, and has the name under which postroom stores the version"
        raise Unfit(problem, "Give it another name.", (name,))
    elif version > 1:
        document[name] = version
    return document


def with_identity(
    event_class: type,
    document: Mapping[str, Any],
    event_id: UUID | None,
    occurred_at: datetime | None,
) -> Mapping[str, Any]:
    """Write a record's id and time into a document, whatever an upcaster made of those in it.

    The document's own time is kept when it is the same moment: it has the offset as well. Raises
    PayloadError if neither has one: the class's default would be another at each call.
    """
    names, told = _names(event_class), dict[str, str]()
    given = {"event_id": event_id, "occurred_at": occurred_at}
    for field in sorted(names.keys() & given):
        if given[field] is None and names[field] not in document:
            raise _anonymous(event_class, names[field])
    if event_id and "event_id" in names:
        told["event_id"] = str(event_id)
    if occurred_at and "occurred_at" in names:
        told["occurred_at"] = _times.encode(occurred_at)
    told = {field: text for field, text in told.items() if document.get(names[field]) != text}
    if "occurred_at" in told and _moment(document.get(names["occurred_at"])) == occurred_at:
        del told["occurred_at"]
    if not told:
        return document
    stale = told.keys() - names.values()  # of a payload that was written in another case
    kept = {name: value for name, value in document.items() if name not in stale}
    return kept | {names[field]: text for field, text in told.items()}


def _anonymous(event_class: type, name: str) -> PayloadError:
    return PayloadError(
        f"the payload of {event_type_of(event_class)} has no `{name}`, and each call would make up"
        " another. Pass event_id=… and occurred_at=…: those of the record, or of the message."
    )


def own_fields(event_class: type, document: Mapping[str, Any]) -> dict[str, Any]:
    """Give a class its own fields of a document, with its version among them if that is one.

    Otherwise the version is postroom's, and no extra field of a pydantic model. A model that
    forbids extra fields gets none: neither what the bus added nor a field that was removed.
    """
    names = _names(event_class)
    own = dict(document)
    own.pop(names[VERSION], None)
    if _extra(event_class) == "forbid":
        own = {name: value for name, value in own.items() if name in names.values()}
    if VERSION in field_names(event_class):
        own[names[VERSION]] = event_version_of(event_class)
    return own


def allows_extra_fields(event_class: type) -> bool:
    """Tell whether a class takes any field: a pydantic model with `extra="allow"`."""
    return _extra(event_class) == "allow"


def check_names(event_class: type) -> None:
    """Refuse a field that has the name of the version in the payload."""
    names = _names(event_class)
    for field in sorted(field_names(event_class) - {VERSION}):
        if names[field] == names[VERSION]:
            problem = f"has the name {names[field]!r} in JSON, and so has the version"
            raise Unfit(problem, "Rename one of them.", (field,))


@cache
def _names(event_class: type) -> Mapping[str, str]:
    """The names that the fields, and the version in any case, have in the document."""
    options = EventOptions.of(event_class)
    fields = {VERSION, *field_names(event_class)}
    return {field: json_name(field, options.case) for field in fields} | dict(options.rename or {})


def _extra(event_class: type) -> str | None:
    config: Mapping[str, Any] = getattr(event_class, "model_config", {})
    return config.get("extra")


def _moment(text: Any) -> datetime | None:
    try:
        moment: datetime = _times.decode(text)
    except Unfit:
        return None
    return moment
