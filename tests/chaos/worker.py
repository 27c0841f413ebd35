"""A worker process: a relay whose publisher has faults. python -m tests.chaos.worker OPTIONS."""

import asyncio
import json
import logging
import os
import signal
import sys
import threading
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from zlib import crc32

from sqlalchemy.ext.asyncio import create_async_engine

from postroom.errors import OutageError
from postroom.publishers.base import DELIVERED, Outcome, Publisher, Refused
from postroom.publishers.rabbitmq import RabbitMQPublisher
from postroom.record import ClaimedRecord
from postroom.relay.relay import OutboxRelay
from postroom.relay.retry import RetrySchedule
from tests.chaos.ledger import Ledger
from tests.chaos.open_transactions import freeze_before_commit
from tests.chaos.publisher import LedgerPublisher
from tests.support.shop import outbox

REFUSED = "refused at random"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """What a worker is told; it travels as JSON."""

    url: str
    ledger: str
    name: str = "worker"
    lease: float = 30.0
    poll: float = 0.5
    batch_size: int = 100
    retry: float = 0.0
    """Seconds after a refusal; for ever, but for the record's own limit."""
    life: float = 0.0
    """Seconds after which the process dies, whatever it delivers; 0 for ever."""
    latency: float = 0.0
    max_in_flight: int = 100
    refused_percent: int = 0
    mended: str = ""
    """A file: when it is there, nothing is refused any more."""
    seed: int = 0
    """Of the random refusals."""
    refuse: tuple[str, ...] = ()
    kill: tuple[str, ...] = ()
    """The records that kill the process."""
    hold: tuple[str, ...] = ()
    """The records whose delivery waits for the file `release`."""
    release: str = ""
    outage: str = ""
    """A file: while it is there, nobody can be delivered to."""
    freeze: str = ""
    """A file: the process makes it, and freezes before it commits its first settlement."""
    broker: str = ""
    """The URL of a RabbitMQ to deliver to, without faults; the ledger is left alone then."""
    exchange: str = ""


class Faults:
    """Treats records as the options say."""

    def __init__(self, options: WorkerOptions) -> None:
        self._options = options

    def opening(self) -> None:
        self.setting_out()
        print("ready", flush=True)

    def setting_out(self) -> None:
        if self._options.outage and Path(self._options.outage).exists():
            raise OutageError("the file says so")

    async def treat(self, record: ClaimedRecord) -> Outcome:
        options, name = self._options, str(record.id)
        if name in options.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        if name in options.hold:
            await appears(Path(options.release))
        await asyncio.sleep(options.latency)
        refused = name in options.refuse or self._unlucky(record)
        return Refused(REFUSED) if refused and not self._is_mended() else DELIVERED

    def _is_mended(self) -> bool:
        return bool(self._options.mended) and Path(self._options.mended).exists()

    def _unlucky(self, record: ClaimedRecord) -> bool:
        """Draw refusals alike in every process, and anew for each attempt."""
        throw = f"{self._options.seed} {record.id} {record.retry_count}".encode()
        return crc32(throw) % 100 < self._options.refused_percent


async def appears(path: Path) -> None:
    """Wait for a file."""
    while not await asyncio.to_thread(path.exists):  # noqa: ASYNC110 - of another process
        await asyncio.sleep(0.01)


def publisher_of(options: WorkerOptions) -> Publisher:
    """Make the publisher."""
    if options.broker:
        return RabbitMQPublisher(options.broker, exchange=options.exchange)
    faults = Faults(options)
    return LedgerPublisher(
        Ledger(Path(options.ledger)),
        options.name,
        faults.treat,
        opening=faults.opening,
        setting_out=faults.setting_out,
        max_in_flight=options.max_in_flight,
    )


async def main(options: WorkerOptions) -> None:
    """Deliver until SIGTERM."""
    if options.life:
        end = threading.Timer(options.life, os.kill, (os.getpid(), signal.SIGKILL))
        end.daemon = True
        end.start()
    if options.freeze:
        freeze_before_commit(Path(options.freeze))
    engine = create_async_engine(options.url, pool_size=2)
    relay = OutboxRelay(
        outbox,
        engine,
        publisher_of(options),
        poll_interval=timedelta(seconds=options.poll),
        lease=timedelta(seconds=options.lease),
        batch_size=options.batch_size,
        retry=RetrySchedule.seconds(options.retry, forever=True),
    )
    stops: list[asyncio.Task[None]] = []
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, os._exit, 1)  # the test is gone
    loop.add_signal_handler(signal.SIGTERM, lambda: stops.append(asyncio.create_task(relay.stop())))
    await relay.run()
    await asyncio.gather(*stops)
    await engine.dispose()


if __name__ == "__main__":
    logging.basicConfig(format="%(levelname)s %(name)s %(message)s")
    logging.getLogger("postroom").setLevel(logging.INFO)
    asyncio.run(main(WorkerOptions(**json.loads(sys.argv[1]))))
