"""`postroom doctor` as operators type it: its lines, its JSON, its exit code."""

import asyncio
import json
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import UntypedEvent
from tests.support.in_process import InProcess
from tests.support.rows import save
from tests.support.services import SECRET

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
    [workers] = [each for each in document["checks"] if each["check"] == "workers"]
    remedy = ["postroom worker MODULE:RELAY"]
    assert workers["subject"] == "deliveries"
    assert workers["findings"] == [{"level": "note", "text": "no worker runs", "remedy": remedy}]


def test_a_database_and_a_broker_that_do_not_answer_are_findings(run_postroom: InProcess) -> None:
    done = run_postroom(
        "doctor",
        DATABASE_URL=f"postgresql://ann:{HIDDEN}@127.0.0.1:1/shop",
        RABBITMQ_URL=f"amqp://ann:{HIDDEN}@127.0.0.1:1/shop",
    )
    assert (done.code, done.err) == (PROBLEM, "")
    database, broker = (line for line in done.out.splitlines() if "problem  connection" in line)
    assert "`shop` at 127.0.0.1:1" in database
    assert "RabbitMQ at 127.0.0.1:1/shop" in broker
    assert done.out.splitlines()[-1] == "2 problems, 0 notes"


def test_tables_that_are_missing_are_problems(run_postroom: InProcess, tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    done = run_postroom("doctor", "--database", f"sqlite:///{tmp_path / 'empty.db'}")
    assert done.code == PROBLEM
    assert "problem  schema       " in done.out
    assert f"→ postroom schema sql | sqlite3 {tmp_path / 'empty.db'}" in done.out


@pytest.mark.parametrize(
    ("words", "says", "code"),
    [
        ((), "which outbox?", USAGE),
        (("--database", "sqlite:///none.db"), "none.db", DATABASE),
        (("--database", "sqlite:///shop.db", "--broker", "http://mq"), "amqp://", USAGE),
        (("--transaction-limit", "soon"), "--transaction-limit is 'soon'", USAGE),
        (("--relay", "nowhere:relay"), "nowhere", USAGE),
    ],
)
def test_what_cannot_be_understood_is_one_line(
    run_postroom: InProcess, shop_file: Path, words: tuple[str, ...], says: str, code: int
) -> None:
    assert says in run_postroom("doctor", *words).error_line(code)


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
    await save(sqlite_file, UntypedEvent(event_type="letter.sent", payload={}))
    await sqlite_file.dispose()
    run_postroom.write("shop.py", HANDLERS)
    done = await asyncio.to_thread(run_postroom, "doctor", "--relay", "shop:relay")
    assert done.code == PROBLEM
    assert "no class and no handler of this program is for letter.sent" in done.out
    assert done.out.count("note     settings ") == 3  # lease, retention, handlers
