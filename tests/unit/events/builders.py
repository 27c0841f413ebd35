"""Events and payloads that several tests build."""

from typing import Any

from postroom import UntypedEvent
from postroom.events.codec import codec_for, same


def untyped(**values: Any) -> UntypedEvent:
    """Return an event without a class; `values` are what it says otherwise."""
    return UntypedEvent(**{"event_type": "thing.happened", "payload": {}} | values)


def lists(levels: int, innermost: Any = 1) -> Any:
    """Return so many lists, each within the other."""
    value: Any = innermost
    for _ in range(levels):
        value = [value]
    return value


def comes_back(value: Any, **options: Any) -> bool:
    """Return whether a codec gives a value back as it was."""
    codec = codec_for(type(value), **options)
    return same(codec.decode(codec.encode(value)), value)
