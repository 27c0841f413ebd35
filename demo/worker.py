"""The demo's worker, a process of its own: delivers until its standard input is closed.

`python -m demo.worker DATABASE_URL SOCKET`
"""

import asyncio
import logging
import sys
from datetime import timedelta
from pathlib import Path

from sqlalchemy import MetaData

from demo.broker import RETRY_AFTER
from demo.publisher import BrokerPublisher
from messaging.database import make_engine
from postroom import Outbox, OutboxRelay, RetrySchedule

LEASE = timedelta(seconds=3)
"""Short, so that one can watch it end. The default is meant for production."""


def make_relay(url: str, socket: Path) -> OutboxRelay:
    """Make the relay. Everything that one waits for is short."""
    return OutboxRelay(
        Outbox(MetaData(), table="outbox_events"),  # a worker needs no more of the application
        make_engine(url),
        BrokerPublisher(socket),
        poll_interval=timedelta(seconds=0.4),
        retry=RetrySchedule.seconds(RETRY_AFTER, forever=True),
        lease=LEASE,
        grace=timedelta(seconds=3),
    )


async def deliver(relay: OutboxRelay) -> None:
    """Deliver until the demo closes the pipe, which it does at its end, however it ends."""
    delivering = asyncio.create_task(relay.run())
    demo_ends = asyncio.create_task(_end_of_input())
    await asyncio.wait({delivering, demo_ends}, return_when=asyncio.FIRST_COMPLETED)
    await relay.stop()
    await delivering
    await relay.engine.dispose()


async def _end_of_input() -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    await reader.read()


if __name__ == "__main__":
    logging.getLogger("postroom").setLevel(logging.CRITICAL)  # the demo tells of it in a line
    asyncio.run(deliver(make_relay(sys.argv[1], Path(sys.argv[2]))))
