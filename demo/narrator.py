"""The narrator: tells what happens by itself, each time that the watcher has looked."""

import asyncio
from contextlib import suppress

from demo.parts import Parts
from postroom.inspection import counted

LOOK_EVERY = 0.4
SUMMARY_AFTER = 10.0
"""Seconds without a line after which a summary is printed."""


class Narrator:
    """Notices take-overs, repeats, and the end of a backlog."""

    def __init__(self, demo: Parts) -> None:
        self._demo = demo
        self._started = 0
        self._delivered_by: int | None = None
        self._dropped = 0

    async def run(self, stopped: asyncio.Event) -> None:
        """Look and tell, again and again, until it is stopped."""
        while not stopped.is_set():
            await self._demo.watcher.look()
            self._tell_of_start()
            self._tell_of_take_over()
            self._tell_of_repeats()
            self._tell_of_backlog()
            if self._demo.story.silent_for(SUMMARY_AFTER):
                self._demo.story.say(f"          {self._demo.watcher.counters()}")
            with suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), LOOK_EVERY)

    def _tell_of_start(self) -> None:
        worker = self._demo.workers.current
        if worker is None or worker.number == self._started:
            return
        self._started = worker.number
        lease = self._demo.watcher.lease_of_others(worker.pid)
        then = (
            f" It takes over when the killed one's lease ends, in {lease:.1f} s." if lease else ""
        )
        self._demo.story.tell(f"Worker {worker.number} started, as process {worker.pid}.{then}")

    def _tell_of_take_over(self) -> None:
        pid = self._demo.broker.delivered_by
        if pid == self._delivered_by:
            return
        if self._delivered_by is not None:
            self._demo.story.tell(f"Worker {self._demo.workers.number_of(pid)} has taken over.")
        self._delivered_by = pid

    def _tell_of_repeats(self) -> None:
        repeats = self._demo.ledger.dropped - self._dropped
        if repeats:
            self._dropped += repeats
            them = counted(repeats, "record")
            self._demo.story.tell(f"{them} arrived again. The consumer's inbox dropped the repeat.")

    def _tell_of_backlog(self) -> None:
        delivered = self._demo.watcher.delivered_backlog()
        if delivered:
            them = counted(delivered, "record")
            self._demo.story.tell(f"{them} that waited for the broker: all delivered, in order.")
