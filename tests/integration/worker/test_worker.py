"""`postroom worker`, a process of its own: it delivers, and it stops when it is told to."""

import asyncio
import json
import signal
import socket
from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from postroom import MemoryPublisher, OutboxRelay, Status, UntypedEvent
from tests.support.broker import Broker
from tests.support.command import ROOT, SCRIPT, Command, Commands
from tests.support.in_process import InProcess
from tests.support.rows import all_delivered, rows, save, until
from tests.support.shop import outbox
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.no_cover  # others cover the same, for less time

GATED = "tests.integration.worker.gated_app"


@pytest.fixture
def exchange(broker: Broker) -> str:
    return broker.exchange("letters")


@pytest.fixture
def queue(broker: Broker, exchange: str) -> str:
    return broker.queue("inbox", "#", exchange=exchange)


@pytest.fixture
def gated(postroom: Commands, database_url: str, tmp_path: Path) -> "Gated":
    return Gated(postroom, database_url, tmp_path)


class Gated:
    """Starts workers whose deliveries wait for a file."""

    def __init__(self, postroom: Commands, database_url: str, directory: Path) -> None:
        self._postroom = postroom
        self._database = make_url(database_url).set(drivername="postgresql+asyncpg")
        self.started = directory / "started"
        self.gate = directory / "gate"

    def __call__(self, *words: str, name: str = "relay", how: str = "waiting") -> Command:
        return self._postroom(
            "worker",
            f"{GATED}:{name}",
            *words,
            PYTHONPATH=str(ROOT),
            SHOP_DATABASE=self._database.render_as_string(hide_password=False),
            SHOP_GATE=how,
        )


def letters(count: int, keys: int = 20) -> list[UntypedEvent]:
    return [
        UntypedEvent(
            event_type="letter.sent",
            aggregate_type="letter",
            aggregate_id=number % keys,
            payload={"number": number},
        )
        for number in range(count)
    ]


async def delivers(engine: AsyncEngine) -> int:
    """Deliver what others have left, if they have given it back: their leases last an hour."""
    async with asyncio.timeout(PATIENCE):
        return (await OutboxRelay(outbox, engine, MemoryPublisher()).run_once()).delivered


# -- from URLs


@pytest.mark.requirement("C9", "C13", "C15")
async def test_records_arrive_at_the_broker_until_a_signal_says_stop(
    postroom: Commands,
    engine: AsyncEngine,
    database_url: str,
    broker: Broker,
    rabbitmq_url: str,
    exchange: str,
    queue: str,
) -> None:
    await save(engine, *letters(3))
    worker = postroom.execute(
        str(SCRIPT),
        "worker",
        DATABASE_URL=database_url,
        RABBITMQ_URL=rabbitmq_url,
        RABBITMQ_EXCHANGE=exchange,
        OUTBOX_POLL_INTERVAL="3600",
        OUTBOX_BATCH_SIZE="50",
    )
    arrived = await broker.consume(queue, 3)
    assert [json.loads(each.body)["number"] for each in arrived] == [0, 1, 2]

    notifier = outbox.notify_workers(engine)  # as an application in another process does
    await save(engine, *letters(2))
    assert len(await broker.consume(queue, 2)) == 2
    notifier.close()

    assert await worker.stop() == 0
    assert all_delivered(await rows(engine))
    said = worker.err.splitlines()
    url = make_url(database_url)
    assert f"from table `outbox` of database `{url.database}` at {url.host}" in said[0]
    assert f"to RabbitMQ at {url.host}:5672" in said[0]
    assert f"exchange {exchange}" in said[0]
    assert "polls every 3600 s, listens on outbox_channel, batches of 50" in said[0]
    assert "SIGTERM, finishes" in said[-2]
    assert "the relay has stopped: 5 delivered, 0 refused" in said[-1]
    assert worker.out == ""


async def test_it_works_on_sqlite(
    postroom: Commands,
    sqlite_file: AsyncEngine,
    broker: Broker,
    rabbitmq_url: str,
    exchange: str,
    queue: str,
) -> None:
    await save(sqlite_file, *letters(3))
    words = ["--database", "sqlite:///shop.db", "--broker", rabbitmq_url, "--exchange", exchange]
    worker = postroom("worker", *words, "--poll-interval", "0.1")
    assert len(await broker.consume(queue, 3)) == 3
    await save(sqlite_file, *letters(2))
    assert len(await broker.consume(queue, 2)) == 2
    assert await worker.stop() == 0
    assert "`shop.db`" in worker.err
    assert "listens" not in worker.err
    assert all_delivered(await rows(sqlite_file))


@pytest.mark.requirement("C13")
async def test_settings_in_a_file_will_do_and_once_delivers_all_and_ends(
    postroom: Commands,
    engine: AsyncEngine,
    database_url: str,
    broker: Broker,
    rabbitmq_url: str,
    exchange: str,
    queue: str,
) -> None:
    await save(engine, *letters(250))
    settings = {"database": database_url, "broker": rabbitmq_url, "exchange": exchange}
    lines = [f'{name} = "{value}"' for name, value in settings.items()]
    section = ["[tool.postroom]", *lines, 'log_format = "json"', ""]
    postroom.write("pyproject.toml", "\n".join(section))
    worker = postroom("worker", "--once")
    assert await worker.code() == 0
    assert len(await broker.consume(queue, 250)) == 250
    assert all_delivered(await rows(engine))
    logged = [json.loads(line) for line in worker.err.splitlines()]
    assert all({"time", "level", "logger", "message"} <= each.keys() for each in logged)
    assert "delivers what is ready" in logged[0]["message"]
    assert "250" in logged[-1]["message"]


def test_once_with_nothing_to_do_ends_well(
    run_postroom: InProcess, database_url: str, rabbitmq_url: str, exchange: str
) -> None:
    words = ["--database", database_url, "--broker", rabbitmq_url, "--exchange", exchange]
    worker = run_postroom("worker", "--once", *words)
    assert worker.code == 0
    moment, level, name, *_ = worker.err.split()
    assert datetime.fromisoformat(moment).tzinfo is not None
    assert (level, name) == ("INFO", "postroom.worker:")


REFUSING = """
import os
from sqlalchemy.ext.asyncio import create_async_engine
from postroom import OutboxRelay, Postponed, Refused, RetrySchedule
from tests.support.shop import outbox

ANSWERS = {
    "refused": Refused("no"),
    "failed": Refused("no", permanent=True),
    "postponed": Postponed("later"),
}

class Publisher:
    max_batch = max_in_flight = 10
    async def open(self): ...
    async def close(self): ...
    async def publish(self, records):
        return [ANSWERS[os.environ["HOW"]]] * len(records)

relay = OutboxRelay(
    outbox,
    create_async_engine("sqlite+aiosqlite:///shop.db"),
    Publisher(),
    retry=RetrySchedule.seconds(60),
)
"""


@pytest.mark.parametrize("how", ["refused", "failed", "postponed"])
def test_once_with_records_that_were_not_delivered_ends_with_1(
    run_postroom: InProcess, shop_file: Path, how: str
) -> None:
    async def save_letters() -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{shop_file}")
        await save(engine, *letters(2))
        await engine.dispose()

    asyncio.run(save_letters())
    run_postroom.write("refusing.py", REFUSING)
    worker = run_postroom("worker", "refusing:relay", "--once", HOW=how)
    assert worker.code == 1
    assert f"2 {how}" in worker.err.splitlines()[-1]


@pytest.mark.requirement("C9", "C18")
async def test_two_workers_at_once_never_take_the_same_record(
    postroom: Commands,
    engine: AsyncEngine,
    database_url: str,
    broker: Broker,
    rabbitmq_url: str,
    exchange: str,
    queue: str,
) -> None:
    words = ["--database", database_url, "--broker", rabbitmq_url, "--exchange", exchange]
    workers = [postroom("worker", *words, "--batch-size", "10") for _ in range(2)]
    for worker in workers:
        await worker.says("postroom: delivers")
    notifier = outbox.notify_workers(engine)
    for _ in range(5):
        await save(engine, *letters(20))
    notifier.close()
    arrived = await broker.consume(queue, 100)
    assert [await worker.stop() for worker in workers] == [0, 0]
    arrived += broker.take(queue)
    found = await rows(engine)
    assert sorted(str(each.message_id) for each in arrived) == sorted(str(row.id) for row in found)
    assert all_delivered(found)


# -- of a module


async def test_a_relay_that_an_async_function_makes_delivers(
    gated: Gated, engine: AsyncEngine
) -> None:
    gated.gate.touch()
    await save(engine, *letters(3))
    worker = gated(name="make_async")
    await until(engine, all_delivered)
    assert await worker.stop() == 0
    assert "to GatedPublisher (polls every 30 s" in worker.err


@pytest.mark.requirement("C15")
@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT], ids=str)
async def test_a_signal_finishes_what_is_in_flight_and_begins_nothing_more(
    gated: Gated, engine: AsyncEngine, told: signal.Signals
) -> None:
    first, second = letters(2, keys=1)  # of one key: one after the other
    await save(engine, first, second)
    worker = gated()
    await eventually(gated.started.exists)
    worker.tell(told)
    await worker.says(f"{told.name}, finishes what is in flight")
    assert not worker.ended
    gated.gate.touch()
    assert await worker.code() == 0
    assert [row.status for row in await rows(engine)] == [Status.PUBLISHED, Status.PENDING]
    assert await delivers(engine) == 1


@pytest.mark.requirement("C15")
@pytest.mark.parametrize(
    ("words", "how"), [((), "waiting"), ((), "thread"), (("--once",), "waiting")]
)
async def test_a_second_signal_stops_at_once_and_leaves_what_was_in_flight_to_others(
    gated: Gated, engine: AsyncEngine, words: tuple[str, ...], how: str
) -> None:
    await save(engine, *letters(1))
    worker = gated(*words, how=how)
    await eventually(gated.started.exists)
    worker.tell(signal.SIGTERM)
    await worker.says("SIGTERM, finishes")
    worker.tell(signal.SIGINT)
    assert await worker.code() == 128 + signal.SIGINT
    [row] = await rows(engine)
    assert (row.status, row.retry_count) == (Status.PENDING, 0)
    assert await delivers(engine) == 1


# -- while it starts


@pytest.mark.requirement("C15")
@pytest.mark.parametrize("silent", ["database", "broker"])
async def test_a_signal_while_it_waits_for_a_server_to_answer_ends_it(
    postroom: Commands, database_url: str, rabbitmq_url: str, silent: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        urls = {"database": database_url, "broker": rabbitmq_url}
        urls[silent] = make_url(urls[silent]).set(port=port).render_as_string(hide_password=False)
        words = ["--database", urls["database"], "--broker", urls["broker"]]
        worker = postroom("worker", *words)
        async with asyncio.timeout(PATIENCE):
            connection, _ = await asyncio.get_running_loop().sock_accept(server)
        assert await worker.stop() == 0
        connection.close()
    assert "Traceback" not in worker.err
    assert "delivers" not in worker.err


async def test_a_signal_while_a_function_makes_the_relay_ends_it(gated: Gated) -> None:
    worker = gated(name="never")
    await eventually(gated.started.exists)
    assert await worker.stop() == 0
    assert "Traceback" not in worker.err
