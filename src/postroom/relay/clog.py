"""A slow key must not stall its partition: what waits behind it is put aside."""

from postroom.record import ClaimedRecord
from postroom.relay.window import Crowd, Window

PATIENCE = 1.0
"""Seconds for which a partition may be full of followers ..."""
SLUGGISH = 20
"""... unless so many of its records came to an end in that time."""
LEAST_DEPTH = 8
"""How many records of a partition are held at least, before it counts as full."""
MOSTLY = 4
"""A partition is full of followers when there are so many records to a key."""


class Clog:
    """Watches for partitions that hold little else than followers. Decides; does no I/O."""

    def __init__(self, window: Window, capacity: int) -> None:
        self._window = window
        self._capacity = capacity
        self._since: dict[int, tuple[float, int]] = {}

    def full(self, partition: int, *, shared_by: int) -> bool:
        """Tell whether enough is held of a partition, when so many share the room."""
        depth = max(LEAST_DEPTH, self._capacity // max(1, shared_by))
        return self._window.crowd(partition).held >= depth

    def behind(self, now: float, *, shared_by: int) -> list[ClaimedRecord]:
        """Give the records that others have waited behind for too long."""
        no_room = len(self._window.held) >= self._capacity
        since: dict[int, tuple[float, int]] = {}
        late: list[int] = []
        for partition in self._window.partitions():
            crowd = self._window.crowd(partition)
            if _followers(crowd) and (no_room or self.full(partition, shared_by=shared_by)):
                began, landed = self._since.get(partition, (now, crowd.landed))
                if now - began < PATIENCE:
                    since[partition] = began, landed
                elif crowd.landed - landed < SLUGGISH:
                    late.append(partition)
        self._since = since
        return [record for partition in late for record in self._window.slow(partition)]


def _followers(crowd: Crowd) -> bool:
    return not crowd.free and crowd.lines * MOSTLY <= crowd.held
