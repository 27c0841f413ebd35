"""When the relay polls: regularly, when a record is due, when woken, often while there is work."""

from dataclasses import dataclass

from postroom.clock import Clock
from postroom.record import PARTITIONS
from postroom.relay.settings import RelaySettings
from postroom.store.base import Poll

BUSY_POLL = 1.0
"""Seconds between polls while there is work: others may release partitions, or die."""
FIRST_POLLS = (0.1, 0.2, 0.4)
"""The same after a commit has woken an idle relay: others woke up too, and divide the work."""
QUIET = 0.25
"""How much sooner a poll may come, as a part of the pause, in a moment without anything to do."""
DRAIN_POLL = 0.1
"""The same for `run_once`, while other workers hold what is left."""
WAKE_PAUSE = 0.01
"""Seconds between polls at least, however many commits wake the relay."""


@dataclass
class PollTimer:
    """Says when to poll. `drain`: the relay ends when everything is delivered."""

    settings: RelaySettings
    clock: Clock
    drain: bool
    woken: bool = False
    """Whether a commit has woken the relay since the last poll began."""
    waits_for_others: bool = False
    """Whether `run_once` has to wait for partitions that other workers hold."""
    _idle: bool = False
    _early: tuple[float, ...] = ()  # pauses before polls that are to come sooner
    _next: float = 0.0
    _last: float = 0.0
    _waits_since: float = 0.0

    @property
    def next_poll(self) -> float:
        """The moment of the next poll, by the monotonic clock."""
        return min(self._next, self._last + WAKE_PAUSE) if self.woken else self._next

    def due(self, now: float, *, quiet: bool = False) -> bool:
        """Return whether it is time to poll, or nearly so in a `quiet` moment."""
        return now >= self.next_poll - (QUIET * (self._next - self._last) if quiet else 0.0)

    def within(self, seconds: float) -> None:
        """Poll in so many seconds, if not before."""
        self._next = min(self._next, self.clock.monotonic() + seconds)

    def begin(self, now: float) -> None:
        """Note that a poll begins: a later commit wakes the relay again."""
        if self.woken and self._idle:
            self._early = FIRST_POLLS
        self._last, self.woken = now, False

    def end(self, poll: Poll, *, busy: bool) -> bool:
        """Note what a poll returned; return whether there is nothing to do.

        `run_once` waits for what others hold, but no longer than the lease of a dead worker.
        """
        others_only = self.drain and poll.waiting > 0 and not poll.leases
        if not (others_only and self.waits_for_others):
            self._waits_since = self._last
        longest = 1.5 * self.settings.lease.total_seconds()
        self.waits_for_others = others_only and self._last - self._waits_since < longest
        idle = not busy and not self.waits_for_others
        pauses = [self.settings.poll_interval.total_seconds()]
        if poll.next_due is not None:
            pauses.append(poll.next_due.total_seconds())
        if not idle or poll.waiting:
            if poll.share >= PARTITIONS and self._early != FIRST_POLLS:
                self._early = ()  # nobody else woke up
            pauses += (BUSY_POLL, *self._early[:1])
            self._early = self._early[1:]
        if self.waits_for_others:
            pauses.append(DRAIN_POLL)
        self._idle = idle
        self._next = self._last + min(pauses)
        return idle
