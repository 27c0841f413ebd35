"""Frames decoded by a codec that others wrote."""

from collections.abc import Iterator
from typing import Any

from pamqp import frame


def read(data: bytes) -> Iterator[tuple[int, Any]]:
    """Cut bytes into frames, as a broker does, with the channel of each."""
    while data:
        size, channel, received = frame.unmarshal(data)
        data = data[size:]
        yield channel, received
