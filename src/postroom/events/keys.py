"""The keys of events that an aggregate raises: one name per class of aggregates."""

from typing import Final
from weakref import WeakKeyDictionary

from postroom.errors import CaptureError
from postroom.events.delayed import undelayed
from postroom.events.description import Description
from postroom.events.event import Event, UntypedEvent
from postroom.events.options import EventOptions
from postroom.events.snapshot import Snapshot

PASSED: Final = "_postroom_keys"
"""The attribute of a class of aggregates that has what `check_key` has let pass."""
Named = tuple[str, bool]
"""The type of an aggregate in a key, and whether it is certainly that of the one that raises."""

_raised: WeakKeyDictionary[type, dict[Named, str]] = WeakKeyDictionary()
"""What each class of aggregates has raised: by name, one of the event types."""
_keyless: WeakKeyDictionary[type, str] = WeakKeyDictionary()
"""Classes of events that got their key from an aggregate, and the name of its class."""


def aggregate_type_of(aggregate_class: type) -> str:
    """Give what a class of aggregates says in `aggregate_type`, or else its own name."""
    return _declared(aggregate_class) or aggregate_class.__name__


def why_key_is_missed(event: Event, description: Description) -> str | None:
    """Say why an event without a key should have one, and what to do; None if it need not.

    Elsewhere an aggregate gave such an event its key, or the class names an aggregate and no id.
    """
    if isinstance(event, UntypedEvent):
        return None
    event_class = type(event).__name__
    if (aggregate := _keyless.get(type(event))) is not None:
        return (
            f"Elsewhere {aggregate} raises such events, and gives them its key. Raise it there, or"
            f" give {event_class} the keywords `aggregate` and `key`."
        )
    has_id = EventOptions.of(type(event)).key is not None or hasattr(event, "aggregate_id")
    if description.aggregate_type is None or has_id:
        return None
    return (
        f"{event_class} is of the aggregate {description.aggregate_type!r}, and has no id of one."
        " Give it the keyword `key`, or have an aggregate raise it."
    )


def check_key(aggregate_class: type, taken: Snapshot) -> None:
    """Refuse an event that would get another name for its aggregate than those before it.

    An event that has an id of its own may be about another aggregate. If nothing says so, that
    is a mistake: the class of aggregates has to say its name.
    """
    description, event_class = taken.description, type(undelayed(taken.given))
    passed: set[object] | None = aggregate_class.__dict__.get(PASSED)
    if passed is None:
        passed = set()
        setattr(aggregate_class, PASSED, passed)
    this = event_class, description.aggregate_type, description.aggregate_id is None
    if this not in passed:
        _check_key(aggregate_class, description, event_class)
        passed.add(this)


def _check_key(aggregate_class: type, description: Description, event_class: type) -> None:
    declared = _declared(aggregate_class)
    name = description.aggregate_type or declared or aggregate_class.__name__
    is_own = description.aggregate_type is None or description.aggregate_id is None
    if description.aggregate_id is None and event_class is not UntypedEvent:
        _keyless[event_class] = aggregate_class.__name__
    raised = _raised.setdefault(aggregate_class, {})
    if (name, is_own) in raised:
        return
    if declared is not None and is_own and name != declared:
        raise CaptureError(
            f"{aggregate_class.__name__} raises {description.event_type} as an event of {name!r},"
            f" and says `aggregate_type = {declared!r}`: two keys, and no order between them. Say"
            " the same in both places."
        )
    for (other, other_is_own), event_type in tuple(raised.items()):  # other threads add to it
        if declared is None and other != name and (is_own or other_is_own):
            raise CaptureError(
                f"{aggregate_class.__name__} raises {event_type} as an event of {other!r}, and"
                f" {description.event_type} as one of {name!r}: two keys, and no order between"
                f" them. Say `aggregate_type = …` on the class {aggregate_class.__name__}, and the"
                " same in the keyword `aggregate` of its events, or leave the keyword out."
            )
    raised[name, is_own] = description.event_type


def _declared(aggregate_class: type) -> str | None:
    declared = getattr(aggregate_class, "aggregate_type", None)
    return declared if isinstance(declared, str) else None  # a column may have the name
