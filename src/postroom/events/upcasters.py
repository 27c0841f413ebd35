"""Upcasters: functions that turn a payload of one version into the next."""

from collections.abc import Callable, Coroutine, Mapping
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any

from postroom.errors import EventDefinitionError, PayloadError
from postroom.events.options import event_type_of, event_version_of, is_version
from postroom.events.topics import is_pattern, is_topic

Upcaster = Callable[[dict[str, Any]], Mapping[str, Any]]


def check_step(event_type: type | str, version: int) -> None:
    """Refuse to upcast what is no event type, or no version that is older than the class's."""
    name: object = event_type_of(event_type) if isinstance(event_type, type) else event_type
    if not isinstance(name, str) or not is_topic(name) or is_pattern(name):
        raise EventDefinitionError(
            f"@upcasts got {name!r}. Give it the event class, or the name of an event type."
        )
    if not is_version(version):
        raise EventDefinitionError(
            f"@upcasts of {name} has version {version!r}. Give the version that the function"
            " reads: 1, 2, 3, …"
        )
    if isinstance(event_type, type) and version >= (current := event_version_of(event_type)):
        raise EventDefinitionError(
            f"{name} is of version {current}, so nothing upcasts its version {version}."
            f" Give the class the keyword `version={version + 1}`."
        )


def check_upcaster(name: str, upcaster: object) -> None:
    """Refuse what does not return a payload when it is called."""
    call = getattr(type(upcaster), "__call__", None)  # noqa: B004  an object's may be async
    tests = (iscoroutinefunction, isgeneratorfunction, isasyncgenfunction)
    is_plain = not any(test(upcaster) or test(call) for test in tests)
    if not (callable(upcaster) and is_plain):
        raise EventDefinitionError(
            f"{path_of(upcaster)} cannot upcast {name}. Use a plain function (`def`, without"
            " `yield`) that takes a payload and returns that of the next version."
        )


def apply(upcaster: Upcaster, document: Mapping[str, Any], step: str) -> Mapping[str, Any]:
    """Call an upcaster, and refuse what is no payload. `step` names the event and version."""
    beginning = f"{step}: {path_of(upcaster)}"
    try:
        upcast: object = upcaster(dict(document))
    except Exception as error:
        raise PayloadError(f"{beginning} raised {error!r}") from error
    if isinstance(upcast, Mapping):
        return upcast
    if isinstance(upcast, Coroutine):
        upcast.close()
    kind = "None" if upcast is None else f"a {type(upcast).__name__}"
    raise PayloadError(f"{beginning} returned {kind}. Return the new payload, a dict.")


def path_of(thing: Any) -> str:
    """Name a class or function with its module; another object by its class."""
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}.{named.__qualname__}"
