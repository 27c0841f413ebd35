"""When the relay polls: regularly, when a record is due, when woken, often while there is work."""

from postroom.clock import Clock
from postroom.relay.settings import RelaySettings
from postroom.store.base import Poll

BUSY_POLL = 1.0
"""Seconds between polls while there is work: others may release partitions, or die."""
DRAIN_POLL = 0.1
"""The same for `run_once`, while other workers hold what is left."""
WAKE_PAUSE = 0.01
"""Seconds between polls at least, however many commits wake the relay."""


class PollTimer:
    """Says when to poll. `drain`: the relay ends when everything is delivered."""

    def __init__(self, settings: RelaySettings, clock: Clock, *, drain: bool) -> None:
        self._interval = settings.poll_interval.total_seconds()
        self._longest_wait = 1.5 * settings.lease.total_seconds()
        self._clock = clock
        self._drain = drain
        self._next = 0.0
        self._last = 0.0
        self._woken = False
        self._waits_since: float | None = None
        self.waits_for_others = False
        """Whether `run_once` has to wait for partitions that other workers hold."""

    def wake(self) -> None:
        """Poll now, or very soon if the relay has just polled."""
        self._woken = True

    def within(self, seconds: float) -> None:
        """Poll in so many seconds, if not before."""
        self._next = min(self._next, self._clock.monotonic() + seconds)

    def due(self, now: float) -> bool:
        """Return whether it is time to poll."""
        return now >= self.next_poll()

    def woken(self, now: float) -> bool:
        """Return whether a commit has woken the relay, and it is time to poll."""
        return self._woken and self.due(now)

    def next_poll(self) -> float:
        """Return the moment of the next poll, by the monotonic clock."""
        return min(self._next, self._last + WAKE_PAUSE) if self._woken else self._next

    def begin(self, now: float) -> None:
        """Note that a poll begins: a later commit wakes the relay again."""
        self._last, self._woken = now, False

    def end(self, poll: Poll, *, busy: bool) -> bool:
        """Note what a poll returned; return whether there is nothing to do."""
        self._wait_for_others(poll)
        idle = not busy and not self.waits_for_others
        pauses = [self._interval]
        if poll.next_due is not None:
            pauses.append(poll.next_due.total_seconds())
        if not idle or poll.waiting:
            pauses.append(BUSY_POLL)
        if self.waits_for_others:
            pauses.append(DRAIN_POLL)
        self._next = self._last + min(pauses)
        return idle

    def _wait_for_others(self, poll: Poll) -> None:
        """Wait for work that others hold, but no longer than the lease of a dead worker."""
        if not self._drain or poll.leases or not poll.waiting:
            self._waits_since, self.waits_for_others = None, False
            return
        if self._waits_since is None:
            self._waits_since = self._last
        self.waits_for_others = self._last - self._waits_since < self._longest_wait
