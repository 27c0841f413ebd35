"""The faults: each is played with one contender, and tells what arrived at the consumer."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.arrivals import LostError, check_order
from benchmarks.compare.stage import Stage
from benchmarks.worker import Worker
from tests.support.waiting import happens

BOUND_LATER = 5.0
"""Seconds from the last commit until a queue is bound."""
REFUSED_WITHIN = 3.0
"""Seconds to wait for the first refusal; without confirms, none is to be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What arrived: different events, repeats, whether in order, seconds after the fault's end."""

    delivered: int
    of: int
    repeated: int
    in_order: bool
    seconds: float | None

    def __str__(self) -> str:
        order = "in order" if self.in_order else "**not in order**"
        count = f"{self.delivered} of {self.of}"
        if not self.delivered:
            return f"**{count}**"
        return f"{count if self.delivered == self.of else f'**{count}**'}, {order}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


async def killed(stage: Stage) -> Outcome:
    """The application is killed right after the COMMIT; it and its worker are started again."""
    await stage.consumer.consume(await stage.consumer.bind())
    application = await stage.application()
    await application.tell(f"die 0 {stage.settings.events}")
    status = await application.ended()
    assert status == -signal.SIGKILL, f"{stage.compared.name} ended with {status}"
    start = time.monotonic()
    await stage.application()
    await stage.worker()
    return await outcome(stage, stage.settings.otherwise, start)


async def unroutable(stage: Stage) -> Outcome:
    """Nobody has bound a queue when events are published; a queue is bound 5 s later."""
    await stage.worker()
    await commit(await stage.application(), 0, stage.settings.events)
    await asyncio.sleep(BOUND_LATER)
    start = time.monotonic()
    await stage.consumer.consume(await stage.consumer.bind())
    return await outcome(stage, stage.settings.otherwise, start)


async def refused(stage: Stage) -> Outcome:
    """The queue is full when the first event of each key comes, and emptied before the others."""
    queue = await stage.consumer.bind(full=True)
    await stage.worker()
    application = await stage.application(bounded=True)
    await commit(application, 0, stage.settings.keys)
    await happens(stage.gate.refusal.is_set, within=REFUSED_WITHIN)
    await asyncio.sleep(stage.settings.full_for)
    await queue.purge()
    start = time.monotonic()
    await stage.consumer.consume(queue)
    await commit(application, stage.settings.keys, stage.settings.events - stage.settings.keys)
    return await outcome(stage, stage.settings.otherwise, start)


async def outage(stage: Stage) -> Outcome:
    """The broker cannot be reached; all events are committed meanwhile.

    Unless it is cold, an event has been delivered before: some open their channel when they
    publish first, and wait for the connection then.
    """
    await stage.consumer.consume(await stage.consumer.bind())
    await stage.worker()
    application = await stage.application()
    if not stage.settings.cold:
        await deliver_one(stage, application)
    await stage.gate.shut()
    end = time.monotonic() + stage.settings.outage
    await commit(application, 0, stage.settings.events, within=stage.settings.outage)
    await asyncio.sleep(end - time.monotonic())
    await stage.gate.open()
    return await outcome(stage, stage.settings.after_outage, time.monotonic())


async def two_workers(stage: Stage) -> Outcome:
    """Two workers deliver what one application has committed; without workers, two applications
    commit events of the same keys in turn."""
    await stage.consumer.consume(await stage.consumer.bind())
    first = await stage.application()
    if stage.compared.worker:
        await commit(first, 0, stage.settings.events)
        start = time.monotonic()
        await stage.workers_at_once(2)
    else:
        start = time.monotonic()
        await take_turns(
            [first, await stage.application()], stage.settings.events, stage.settings.keys
        )
    return await outcome(stage, stage.settings.otherwise, start)


Fault = Callable[[Stage], Awaitable[Outcome]]


async def commit(application: Worker, first: int, count: int, *, within: float = 60.0) -> None:
    """Have an application commit events, and wait until it has."""
    await application.tell(f"commit {first} {count}")
    await application.says("committed", within=within)


async def deliver_one(stage: Stage, application: Worker) -> None:
    """Have an event delivered that does not count."""
    await commit(application, stage.settings.events, 1)
    await stage.consumer.wait_for(1, stage.settings.otherwise)
    assert stage.consumer.taken, f"{stage.compared.name} delivers nothing"
    stage.consumer.taken.clear()


async def take_turns(applications: Sequence[Worker], events: int, keys: int) -> None:
    """Commit events one by one, those of a key by each application in turn."""
    for number in range(events):
        await commit(applications[number // keys % len(applications)], number, 1)


async def outcome(stage: Stage, within: float, start: float) -> Outcome:
    """Wait for what is to arrive, and tell what did."""
    await stage.consumer.wait_for(stage.settings.events, within)
    taken, last_at = stage.consumer.taken, stage.consumer.last_at
    try:
        check_order(taken)
        in_order = True
    except LostError:
        in_order = False
    return Outcome(
        delivered=len(set(taken)),
        of=stage.settings.events,
        repeated=len(taken) - len(set(taken)),
        in_order=in_order,
        seconds=round(max(last_at - start, 0.0), 1) if taken else None,
    )
