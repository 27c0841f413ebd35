"""Three incidents: from the alarm to a green `status`, with commands alone.

The pages docs/runbooks/ tell the same stories, with the same commands.
"""

import asyncio
import json
import re
import signal
from typing import Any

import pytest
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import OutboxRecord
from tests.integration.operators import payments_app
from tests.support.broker import Broker
from tests.support.command import ROOT, Command, Commands
from tests.support.in_process import Ended, InProcess
from tests.support.rows import all_delivered, until
from tests.support.waiting import eventually

pytestmark = [pytest.mark.no_cover, pytest.mark.requirement("E6"), pytest.mark.requirement("E16")]

RELAY = "tests.integration.operators.payments_app:relay"
HEALTHY, UNHEALTHY = 0, 1


TYPED = re.compile(r"^\$ postroom (.*)$", re.MULTILINE)


class Incident:
    """An operator at a terminal, with the environment of the worker."""

    def __init__(self, commands: Commands, run: InProcess, **environment: str) -> None:
        self.folder = commands.directory
        self.environment = environment
        self.typed: set[str] = set()
        self._commands, self._run = commands, run

    def worker(self, *words: str) -> Command:
        """Start a worker as a process of its own."""
        self.typed.add(" ".join(["worker", *words]))
        return self._commands("worker", *words, **self.environment, PYTHONPATH=str(ROOT))

    async def types(self, words: str, *, code: int = 0) -> str:
        """Run a command to its end; return what it prints."""
        ended = await self._ends(words)
        assert ended.code == code, ended
        return ended.out

    async def reads(self, words: str) -> Any:
        """Run a command with --json; return what it says."""
        ended = await self._ends(f"{words} --json")
        assert ended.code in (HEALTHY, UNHEALTHY), ended
        return json.loads(ended.out)

    async def sees(self, words: str, *expected: str) -> str:
        """Repeat a command until it prints all of these words."""
        seen = ""

        async def printed() -> bool:
            nonlocal seen
            ended = await self._ends(words)
            seen = ended.out + ended.err
            return all(each in seen for each in expected)

        await eventually(printed, f"{words}: {expected}")
        return seen

    async def is_green(self) -> bool:
        return (await self._ends("status")).code == HEALTHY

    def has_typed_all_of(self, page: str) -> None:
        """Check that all commands of a page were typed."""
        on_page = set(TYPED.findall((ROOT / "docs/runbooks" / page).read_text()))
        assert on_page
        assert on_page <= self.typed

    async def _ends(self, words: str) -> Ended:
        self.typed.add(words)
        return await asyncio.to_thread(self._run, *words.split(), **self.environment)


@pytest.fixture
def incident(postroom: Commands, run_postroom: InProcess, database_url: str) -> Incident:
    url = make_url(database_url).set(drivername="postgresql+asyncpg")
    return Incident(
        postroom,
        run_postroom,
        PAYMENTS_DATABASE_URL=url.render_as_string(hide_password=False),
        DATABASE_URL=database_url,
    )


async def save(engine: AsyncEngine, orders: range, payments: int) -> None:
    """Commit so many payments of each order."""
    async with engine.begin() as connection:
        await payments_app.outbox.save(connection, payments_app.events(orders, range(payments)))


async def test_a_handler_s_dependency_breaks(engine: AsyncEngine, incident: Incident) -> None:
    await save(engine, range(7, 10), payments=3)
    worker = incident.worker(RELAY)

    # 03:12 the alarm: status says what is wrong
    await incident.sees("status", "3 records failed", "3 keys")
    await incident.types("status", code=UNHEALTHY)
    # what failed, and why
    failures = await incident.types("failures")
    assert "order.paid" in failures
    assert "PaymentsDownError: payments.shop" in failures
    [group] = (await incident.reads("failures"))["groups"]
    assert group["count"] == 3
    # what it means for a customer
    why = await incident.types("why order/7")
    assert "order.paid" in why
    assert "postroom retry" in why
    assert (await incident.reads("why order/7"))["waiting"] == 2
    # the payment service comes back, and the operator says so
    (incident.folder / payments_app.UP).touch()
    await incident.types("failures retry 1 --yes")
    await eventually(incident.is_green)
    assert (await incident.reads("failures"))["groups"] == []
    found = await until(engine, all_delivered)
    assert len(found) == 9
    diary = (incident.folder / payments_app.DIARY).read_text().split("\n")
    for key in ("7", "8", "9"):
        assert [each for each in diary if each.startswith(key)] == [f"{key} {n}" for n in range(3)]
    assert await worker.stop() == 0
    incident.has_typed_all_of("dependency-down.md")


@pytest.mark.extended
@pytest.mark.requirement("E12")
@pytest.mark.parametrize("problem", ["full", "gone"])
async def test_a_consumer_s_queue_is_full_or_gone(
    engine: AsyncEngine, incident: Incident, broker: Broker, rabbitmq_url: str, problem: str
) -> None:
    exchange, queue = broker.exchange("shop"), "invoices"
    if problem == "full":
        broker.queue(queue, "order.*", exchange=exchange, max_length=1, overflow="reject-publish")
    await save(engine, range(7, 10), payments=1)
    incident.environment |= {"RABBITMQ_URL": rabbitmq_url, "RABBITMQ_EXCHANGE": exchange}
    worker = incident.worker()

    # status names the route that waits, since when and why
    route = f"routing key `order.paid` of exchange `{exchange}`"
    await incident.sees("status", route)
    status = await incident.types("status", code=UNHEALTHY)
    assert "postroom doctor" in status.splitlines()[-1]
    [waiting] = (await incident.reads("status"))["waiting_routes"]
    assert waiting["route"] == route
    assert ("a queue is full" if problem == "full" else "no queue") in waiting["reason"]
    # the doctor says what to do
    doctor = await incident.types("doctor", code=UNHEALTHY)
    assert route in doctor
    assert ("Start its consumers" if problem == "full" else "declare binding") in doctor
    # the consumer comes back; nobody has to do anything else
    if problem == "gone":
        broker.queue(queue, "order.*", exchange=exchange)

    def consumed(found: list[OutboxRecord]) -> bool:
        broker.take(queue)  # again and again: it has room for one message
        return all_delivered(found)

    found = await until(engine, consumed)
    await eventually(incident.is_green)
    assert {(each.status, each.retry_count) for each in found} == {("published", 0)}
    assert await worker.stop() == 0
    incident.has_typed_all_of("queue-full.md")


@pytest.mark.extended  # a worker is missing after 10 s
async def test_a_worker_hangs(engine: AsyncEngine, incident: Incident) -> None:
    (incident.folder / payments_app.SILENT).touch()
    await save(engine, range(7, 10), payments=1)
    hanging = incident.worker(RELAY)
    # a handler that never returns: workers names its record, and how long it has taken
    await incident.sees("workers", "order.paid order/", "in flight for", "working")
    # a process that hangs as a whole
    hanging.tell(signal.SIGSTOP)
    missing = await incident.sees("workers", "missing", "missed its heartbeats since")
    assert str(hanging.process.pid) in missing
    await incident.types("status", code=UNHEALTHY)
    # kill it, and start another one
    hanging.tell(signal.SIGKILL)
    (incident.folder / payments_app.SILENT).unlink()
    (incident.folder / payments_app.UP).touch()
    worker = incident.worker(RELAY)
    await until(engine, all_delivered)
    await incident.sees("workers", str(worker.process.pid), "idle")
    # for five minutes status still names the one that is gone, and nothing else
    problems = (await incident.reads("status"))["problems"]
    assert [each for each in problems if f":{hanging.process.pid}:" not in each] == []
    assert await worker.stop() == 0
    incident.has_typed_all_of("worker-hangs.md")
