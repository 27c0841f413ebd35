"""When a lane polls: now and then, when something is due, when it is woken, often while busy."""

from postroom.relay.clock import Clock
from postroom.relay.settings import RelaySettings
from postroom.store.base import Poll

BUSY_POLL = 1.0
"""Seconds between polls while there is work: for partitions that fill, or that others give up."""
DRAIN_POLL = 0.1
"""The same for a lane that ends when all is done, while others hold what is left."""
HUNGRY = 2.0
"""Seconds for which a lane without any work asks as often for what others have to share."""
WAKE_PAUSE = 0.01
"""Seconds between polls at least, however many commits wake it."""


class Pace:
    """Decides; does no I/O."""

    def __init__(self, settings: RelaySettings, clock: Clock, *, drain: bool) -> None:
        self._settings = settings
        self._clock = clock
        self._drain = drain
        self._next = 0.0
        self._last = 0.0
        self._woken = False
        self._patience: float | None = None
        self._hungry_since: float | None = None
        self.waits_for_others = False
        """Whether a drain has to wait, because others hold what is left."""

    def wake(self) -> None:
        """Poll now, or very soon if that has just been done."""
        self._woken = True

    def at_once(self) -> None:
        """Poll now."""
        self._next = 0.0

    def within(self, seconds: float) -> None:
        """Poll in so many seconds, if not before."""
        self._next = min(self._next, self._clock.monotonic() + seconds)

    def woken(self, now: float) -> bool:
        """Tell whether somebody has committed, and it is time to look."""
        return self._woken and now >= self.next_poll()

    def next_poll(self) -> float:
        """Give the moment of the next poll, by the monotonic clock."""
        return min(self._next, self._last + WAKE_PAUSE) if self._woken else self._next

    def begin(self, now: float) -> None:
        """Note that a poll begins: a commit from now on is not one that it has seen."""
        self._last, self._woken = now, False

    def end(self, poll: Poll, *, busy: bool) -> bool:
        """Note what a poll gave; tell whether there is nothing to do."""
        self._look_at_others(poll)
        idle = not busy and not self.waits_for_others
        self._look_for_work(poll, idle=idle)
        self._next = self._last + min(self._pauses(poll, idle=idle))
        return idle

    @property
    def _hungry(self) -> bool:
        since = self._hungry_since
        return since is not None and self._last - since < HUNGRY

    def _look_at_others(self, poll: Poll) -> None:
        """Wait for work that others hold, but no longer than a lease of somebody who is dead."""
        if not self._drain or poll.leases or not poll.waiting:
            self._patience, self.waits_for_others = None, False
            return
        if self._patience is None:
            self._patience = self._last + 1.5 * self._settings.lease.total_seconds()
        self.waits_for_others = self._last < self._patience

    def _look_for_work(self, poll: Poll, *, idle: bool) -> None:
        """Note since when there has been work, but none for this lane."""
        if not idle or not poll.waiting:
            self._hungry_since = None
        elif self._hungry_since is None:
            self._hungry_since = self._last

    def _pauses(self, poll: Poll, *, idle: bool) -> list[float]:
        pauses = [self._settings.poll_interval.total_seconds()]
        if poll.next_due is not None:
            pauses.append(poll.next_due.total_seconds())
        if not idle:
            pauses += [self._settings.lease.total_seconds() / 3, BUSY_POLL]
        elif poll.waiting:  # in partitions of others, who may give them up, or be dead
            pauses.append(BUSY_POLL)
        if self.waits_for_others or self._hungry:
            pauses.append(DRAIN_POLL)
        return pauses
