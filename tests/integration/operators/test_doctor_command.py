"""`postroom doctor` as operators type it: its lines, its JSON, its exit code."""

import asyncio
import json
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import UntypedEvent
from tests.support.broker import Broker
from tests.support.command import Commands
from tests.support.in_process import InProcess
from tests.support.postgres import SECRET
from tests.support.rows import all_delivered, save, until
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("E6")

OK, PROBLEM, USAGE, DATABASE = 0, 1, 2, 3
HIDDEN = quote(SECRET, safe="")


@pytest.fixture
def sqlite_url(sqlite_engine: Engine, tmp_path: Path) -> str:
    with sqlite_engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA journal_mode = wal")
    return f"sqlite:///{tmp_path / 'shop.db'}"


def test_each_finding_is_a_line_and_its_remedy_is_below(
    run_postroom: InProcess, sqlite_url: str
) -> None:
    done = run_postroom("doctor", "--database", sqlite_url)
    assert (done.code, done.err) == (OK, "")
    lines = done.out.splitlines()
    assert lines[0] == "database"
    assert lines[1].startswith("  ok       connection   connected: table `outbox` of database")
    workers = lines.index("  note     workers      no worker runs")
    assert lines[workers + 1] == " " * 22 + "→ postroom worker MODULE:RELAY"
    assert lines[-1] == "no problem, 2 notes"


def test_json_has_the_same(run_postroom: InProcess, sqlite_url: str) -> None:
    done = run_postroom("doctor", "--database", sqlite_url, "--json")
    assert done.code == OK
    document = json.loads(done.out)
    assert list(document) == ["outbox", "problems", "checks"]
    assert document["problems"] == 0
    [workers] = [each for each in document["checks"] if each["check"] == "workers"]
    assert workers == {
        "subject": "deliveries",
        "check": "workers",
        "findings": [
            {
                "level": "note",
                "text": "no worker runs",
                "remedy": ["postroom worker MODULE:RELAY"],
            }
        ],
    }


def test_a_database_and_a_broker_that_do_not_answer_are_findings(run_postroom: InProcess) -> None:
    done = run_postroom(
        "doctor",
        DATABASE_URL=f"postgresql://ann:{HIDDEN}@127.0.0.1:1/shop",
        RABBITMQ_URL=f"amqp://ann:{HIDDEN}@127.0.0.1:1/shop",
    )
    assert (done.code, done.err) == (PROBLEM, "")
    database, broker = (line for line in done.out.splitlines() if "problem  connection" in line)
    assert "cannot use table `outbox` of database `shop` at 127.0.0.1:1" in database
    assert "cannot reach RabbitMQ at 127.0.0.1:1/shop" in broker
    assert done.out.splitlines()[-1] == "2 problems, 0 notes"


def test_tables_that_are_missing_are_problems(run_postroom: InProcess, tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    done = run_postroom("doctor", "--database", f"sqlite:///{tmp_path / 'empty.db'}")
    assert done.code == PROBLEM
    assert "problem  schema       no table `outbox` in database" in done.out
    assert f"→ postroom schema sql | sqlite3 {tmp_path / 'empty.db'}" in done.out


@pytest.mark.parametrize(
    ("words", "says", "code"),
    [
        ((), "which outbox?", USAGE),
        (("--database", "sqlite:///none.db"), "there is no database file none.db", DATABASE),
        (("--database", "oracle://db"), "postroom has no way to use 'oracle'", USAGE),
        (("--transaction-limit", "soon"), "--transaction-limit is 'soon'", USAGE),
        (("--relay", "nowhere:relay"), "nowhere", USAGE),
    ],
)
def test_what_cannot_be_understood_is_one_line(
    run_postroom: InProcess, words: tuple[str, ...], says: str, code: int
) -> None:
    assert says in run_postroom("doctor", *words).error_line(code)


def test_a_broker_s_url_that_cannot_be_read_is_one_line(
    run_postroom: InProcess, sqlite_url: str
) -> None:
    words = ("--database", sqlite_url, "--broker", f"http://ann:{SECRET}@mq")
    line = run_postroom("doctor", *words).error_line(USAGE)
    assert "Its form is amqp://user:password@host:5672/vhost" in line


HANDLERS = """
from datetime import timedelta
from sqlalchemy.ext.asyncio import create_async_engine
from postroom import EventRegistry, HandlersPublisher, Outbox, OutboxRelay
from sqlalchemy import AsyncAdaptedQueuePool, MetaData

events = EventRegistry()
outbox = Outbox(MetaData(), events=events)
engine = create_async_engine("sqlite+aiosqlite:///shop.db", poolclass=AsyncAdaptedQueuePool)
relay = OutboxRelay(
    outbox, engine, HandlersPublisher(max_in_flight=50), lease=timedelta(seconds=2),
    retention=timedelta(),
)
"""


async def test_handlers_and_settings_of_a_relay_are_checked(
    run_postroom: InProcess, sqlite_file: AsyncEngine
) -> None:
    await save(sqlite_file, letter(1))
    await sqlite_file.dispose()
    run_postroom.write("shop.py", HANDLERS)
    done = await asyncio.to_thread(run_postroom, "doctor", "--relay", "shop:relay")
    assert done.code == PROBLEM
    assert "no class and no handler of this program is for letter.sent" in done.out
    assert "note     settings     the lease is 2.0 s" in done.out
    assert "note     settings     retention is 0" in done.out
    assert "note     settings     50 handlers run at once" in done.out


def letter(number: int) -> UntypedEvent:
    return UntypedEvent(
        event_type="letter.sent", aggregate_type="letter", aggregate_id=number, payload={}
    )


async def lines_of(postroom: Commands, words: tuple[str, ...], check: str) -> list[str]:
    """Run the command, and give its lines about a check, each with the remedies below it."""
    command = postroom("doctor", *words)
    await command.code()
    found: list[str] = []
    for line in command.out.splitlines():
        if line.split()[1:2] == [check] or (found and line.strip().startswith("→")):
            found.append(line.strip())
        elif found:
            break
    return found


@pytest.mark.requirement("E12")
@pytest.mark.no_cover
async def test_a_queue_that_is_gone_or_full_is_named_with_a_remedy_that_works(
    postroom: Commands, engine: AsyncEngine, database_url: str, rabbitmq_url: str, broker: Broker
) -> None:
    exchange, queue = broker.exchange(broker.name("letters")), broker.name("inbox")
    words = ("--database", database_url, "--broker", rabbitmq_url, "--exchange", exchange)
    worker = postroom("worker", *words)
    await worker.says("delivers from")
    await save(engine, *map(letter, range(3)))

    async def says(text: str) -> bool:
        return text in "\n".join(await lines_of(postroom, words, "routes"))

    route = f"problem  routes       routing key `letter.sent` of exchange `{exchange}`"
    await eventually(lambda: says(route))
    assert await says(f'→ In the topology: Queue(…, [Binding("{exchange}", "letter.sent")])')
    postroom.write(
        "shop.py",
        f"""
from postroom.publishers.rabbitmq import Binding, Queue, Topology

TOPOLOGY = Topology(queues=[Queue("{queue}", [Binding("{exchange}", "letter.sent")],
                                  max_length=3, overflow="reject-publish")])
""",
    )
    broker.owns(queues=(queue,))
    applied = postroom("topology", "shop:TOPOLOGY", "--apply", RABBITMQ_URL=rabbitmq_url)
    assert await applied.code() == 0, applied.err
    await until(engine, all_delivered)
    await eventually(lambda: says("no worker reports an outage"))

    await save(engine, letter(4))
    await eventually(lambda: says("a queue is full"))
    assert await says("→ Start its consumers, or raise its max-length")
    broker.take(queue)
    await until(engine, all_delivered)
    await eventually(lambda: says("no worker reports an outage"))
    assert await worker.stop() == 0
