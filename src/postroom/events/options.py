"""How an event class is stored: what its class keywords say."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, Literal, get_args

from postroom.errors import EventDefinitionError

Naming = Literal["class", "qualified", "dotted"]
Case = Literal["snake", "camel"]
_ATTRIBUTE = "__postroom_event__"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventOptions:
    """The class keywords of `DomainEvent`, with what the class inherits filled in."""

    name: str | None = None
    version: int | None = None
    aggregate: str | None = None
    key: str | None = None
    naming: Naming = "class"
    case: Case = "snake"
    rename: Mapping[str, str] | None = None

    @classmethod
    def declare(cls, event_class: type, keywords: Mapping[str, Any]) -> None:
        """Keep the keywords on the class. `@dataclass(slots=True)` makes it anew without them."""
        if _ATTRIBUTE in event_class.__dict__ and not keywords:
            return
        _check(event_class, keywords)
        inherited = replace(cls.of(event_class), name=None)
        setattr(event_class, _ATTRIBUTE, replace(inherited, **keywords))

    @classmethod
    def of(cls, event_class: type) -> "EventOptions":
        """Give the options of any class; the defaults for one that never declared any."""
        return getattr(event_class, _ATTRIBUTE, None) or cls()


@cache
def event_type_of(event_class: type) -> str:
    """Name the event type of a class: its `name`, its own `event_type`, or made by its `naming`."""
    options = EventOptions.of(event_class)
    declared = options.name or event_class.__dict__.get("event_type")
    return declared if isinstance(declared, str) else _NAMINGS[options.naming](event_class)


@cache
def event_version_of(event_class: type) -> int:
    """Give the version that a class writes: its `version`, its `event_version`, or 1."""
    version = EventOptions.of(event_class).version or getattr(event_class, "event_version", None)
    if version is None and "event_version" in getattr(event_class, "model_fields", {}):
        version = event_class.model_fields["event_version"].default  # type: ignore[attr-defined]
    return version if isinstance(version, int) else 1


def _check(event_class: type, keywords: Mapping[str, Any]) -> None:
    known = [option.name for option in fields(EventOptions)]
    where = f"event class {event_class.__qualname__}"
    if unknown := sorted(set(keywords) - set(known)):
        raise EventDefinitionError(
            f"{where}: unknown keyword {', '.join(unknown)}. There are {', '.join(known)}."
        )
    for keyword, choices in (("naming", get_args(Naming)), ("case", get_args(Case))):
        if keyword in keywords and keywords[keyword] not in choices:
            raise EventDefinitionError(
                f"{where}: {keyword} is {keywords[keyword]!r}. It is one of {', '.join(choices)}."
            )
    version = keywords.get("version", 1)
    if not isinstance(version, int) or version < 1:
        raise EventDefinitionError(f"{where}: version is {version!r}. Versions are 1, 2, 3, …")


def _qualified(event_class: type) -> str:
    return f"{event_class.__module__}.{event_class.__qualname__}"


def _dotted(event_class: type) -> str:
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*|[a-z0-9]+", event_class.__name__)
    *subject, verb = [word.lower() for word in words]
    return ".".join(filter(None, ["_".join(subject), verb]))


_NAMINGS: Mapping[str, Callable[[type], str]] = {
    "class": lambda event_class: event_class.__name__,
    "qualified": _qualified,
    "dotted": _dotted,
}
