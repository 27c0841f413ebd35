"""How an event class is stored, by its class keywords: type, version, key, case of names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, Literal, get_args

from postroom.errors import EventDefinitionError

Naming = Literal["class", "qualified", "dotted"]
Case = Literal["snake", "camel"]
MAX_VERSION = 2**31 - 1  # of the database's integer
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
    keyword, default = EventOptions.of(event_class).version, _version_attribute(event_class)
    if keyword and "event_version" in field_names(event_class) and keyword != default:
        raise EventDefinitionError(
            f"{event_class.__qualname__} has two versions: its field event_version says"
            f" {default!r}, its keyword version {keyword}. Remove the keyword, and give"
            f" the field the default {keyword}."
        )
    version: int = keyword or default
    if not is_version(version):
        raise EventDefinitionError(
            f"{event_class.__qualname__} has event_version {version!r}. Versions are 1, 2, 3, …"
        )
    return version


def is_version(value: object) -> bool:
    """Tell whether this is a number that a version can have."""
    return type(value) is int and 1 <= value <= MAX_VERSION


@cache
def field_names(event_class: type) -> frozenset[str]:
    """Name the fields of a dataclass or a pydantic model."""
    if is_dataclass(event_class):
        return frozenset(field.name for field in fields(event_class))
    return frozenset(getattr(event_class, "model_fields", ()))


def _version_attribute(event_class: type) -> Any:
    of_model = getattr(event_class, "model_fields", {})  # pydantic takes defaults off the class
    if "event_version" in of_model:
        return of_model["event_version"].default
    return getattr(event_class, "event_version", 1)


def _check(event_class: type, keywords: Mapping[str, Any]) -> None:
    where = f"event class {event_class.__qualname__}"
    if unknown := sorted(set(keywords) - set(_KEYWORDS)):
        raise EventDefinitionError(
            f"{where}: unknown keyword {', '.join(unknown)}. There are {', '.join(_KEYWORDS)}."
        )
    for keyword, value in keywords.items():
        is_right, expected = _KEYWORDS[keyword]
        if not is_right(value):
            raise EventDefinitionError(f"{where}: {keyword} is {value!r}. It is {expected}.")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_names(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_name, [*value, *value.values()]))


def _one_of(choices: Any) -> tuple[Callable[[object], bool], str]:
    names = get_args(choices)
    return names.__contains__, f"one of {', '.join(names)}"


_KEYWORDS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "name": (_is_name, "a string"),
    "version": (is_version, "a whole number: 1, 2, 3, …"),
    "aggregate": (_is_name, "a string"),
    "key": (_is_name, "the name of a field"),
    "naming": _one_of(Naming),
    "case": _one_of(Case),
    "rename": (_is_names, "a dict of names: {field: name in the payload}"),
}


def _qualified(event_class: type) -> str:
    return f"{event_class.__module__}.{event_class.__qualname__}"


def _dotted(event_class: type) -> str:
    *subject, verb = _words(event_class.__name__)
    return ".".join(filter(None, ["_".join(subject), verb]))


def _words(name: str) -> list[str]:
    """Split at capitals and underscores: "HTTPCallFailed" is http, call, failed."""
    starts = [
        index
        for index in range(1, len(name))
        if name[index].isupper()
        and (not name[index - 1].isupper() or name[index + 1 : index + 2].islower())
    ]
    parts = [name[start:end] for start, end in pairwise([0, *starts, len(name)])]
    return "_".join(parts).lower().strip("_").replace("__", "_").split("_")


_NAMINGS: Mapping[str, Callable[[type], str]] = {
    "class": lambda event_class: event_class.__name__,
    "qualified": _qualified,
    "dotted": _dotted,
}
