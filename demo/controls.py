"""The buttons of the page: what each does, and the line that tells of it."""

import asyncio
from collections.abc import Awaitable, Callable
from types import MappingProxyType
from typing import Final

import httpx

from demo.parts import Parts
from postroom.inspection import counted

MESSAGE_EVERY = 2.5
"""Seconds between two messages of the sample traffic."""
ENOUGH = 200
"""How many records may wait before the sample traffic waits, too."""


async def send_regularly(demo: Parts) -> None:
    """Send a message now and then, until cancelled."""
    while True:
        if demo.traffic and demo.watcher.counters().waiting < ENOUGH:
            await _send(demo)
        await asyncio.sleep(MESSAGE_EVERY)


async def send(demo: Parts) -> None:
    name = await _send(demo)
    if name is not None:
        demo.story.tell(
            f"You sent {name}: 4 requests, 4 records. Each record is committed with its change."
        )


async def stop_broker(demo: Parts) -> None:
    if demo.broker.is_running:
        demo.broker.stop()
        demo.story.tell(
            "Broker stopped. The worker pauses. Requests are answered as ever; their records wait."
        )


async def start_broker(demo: Parts) -> None:
    if demo.broker.is_running:
        return
    await demo.watcher.look()
    demo.watcher.mark_backlog()
    if await demo.broker.start():
        demo.story.tell(f"Broker started. {_waiting(demo)}.")


async def refuse(demo: Parts) -> None:
    demo.broker.to_refuse += 1
    demo.story.tell("The broker will refuse the next record that it gets.")
    await _send(demo)  # so that there is something to refuse


async def roll_back(demo: Parts) -> None:
    result = await demo.client.roll_back()
    demo.story.tell(f"Rolled back: a record could not be written, nor was its message. {result}.")


async def kill(demo: Parts) -> None:
    worker = await demo.workers.kill()
    if worker is None:
        demo.story.tell(f"No worker runs. The next one starts in {demo.workers.starts_in:.1f} s.")
        return
    await demo.watcher.look()
    lease = demo.watcher.lease_of_others(None)
    then = (
        f"another worker takes over when its lease ends, in {lease:.1f} s"
        if lease
        else "it held no lease, so another worker goes on as soon as it has started"
    )
    demo.story.tell(
        f"Worker {worker.number} killed (SIGKILL, process {worker.pid}). {_waiting(demo)}; {then}."
    )


async def stop_traffic(demo: Parts) -> None:
    demo.traffic = False
    demo.story.tell("Sample traffic stopped. Send messages with the button.")


async def start_traffic(demo: Parts) -> None:
    demo.traffic = True
    demo.story.tell(f"Sample traffic started: a message every {MESSAGE_EVERY} s.")


ACTIONS: Final = MappingProxyType[str, Callable[[Parts], Awaitable[None]]](
    {
        "send": send,
        "stop-broker": stop_broker,
        "start-broker": start_broker,
        "refuse": refuse,
        "roll-back": roll_back,
        "kill": kill,
        "stop-traffic": stop_traffic,
        "start-traffic": start_traffic,
    }
)


async def _send(demo: Parts) -> str | None:
    try:
        return await demo.client.send()
    except httpx.HTTPError as error:
        demo.story.tell(f"A message could not be sent: {error}")
        return None


def _waiting(demo: Parts) -> str:
    number = demo.watcher.counters().waiting
    return f"{counted(number, 'record')} {'waits' if number == 1 else 'wait'}"
