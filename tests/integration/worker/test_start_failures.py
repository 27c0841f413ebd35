"""What keeps a worker from its work: one line that says what, where and what to try, and a code."""

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, MetaData, make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine
from yarl import URL

from postroom import Outbox, OutboxRecord
from tests.chaos.server import private_server
from tests.support.broker import Broker
from tests.support.command import SCRIPT, Commands
from tests.support.in_process import InProcess
from tests.support.listening import HOST
from tests.support.postgres import SECRET
from tests.support.services import own_name

USAGE, DATABASE, SCHEMA, BROKER = 2, 3, 4, 5
HIDE = """
import os, sys

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == os.environ["HIDDEN"]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hide())
"""
SHOP = """
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine
from postroom import MemoryPublisher, Outbox, OutboxRecord, OutboxRelay

outbox = Outbox(MetaData(), record=type("ShopRecord", (OutboxRecord,), {}))
relay = OutboxRelay(outbox, create_async_engine("sqlite+aiosqlite:///shop.db"), MemoryPublisher())
"""


class DriftedRecord(OutboxRecord):
    pass


drifted = Outbox(MetaData(), table="drifted", record=DriftedRecord)


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that nobody can listen on while this lasts, and nobody answers."""
    with socket.socket() as holder:
        holder.bind((HOST, 0))
        yield holder.getsockname()[1]


def error_line(run_postroom: InProcess, code: int, *words: str, **environment: str) -> str:
    """Give what the worker says, without the name that each line begins with."""
    line = run_postroom("worker", *words, **environment).error_line(code)
    assert line.startswith("postroom worker: ")
    assert line.endswith((".", "'", ")"))
    return line.removeprefix("postroom worker: ")


# -- usage


def test_nothing_to_deliver(run_postroom: InProcess) -> None:
    line = error_line(run_postroom, USAGE)
    assert "postroom worker app.outbox:relay" in line
    assert "--database" in line
    assert "DATABASE_URL" in line


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        (f"postgresql//ann:{SECRET}@db", "Its form is postgresql://user:password@host"),
        (f"mysql://ann:{SECRET}@db/shop", "The URL's form is postgresql://user:password@host"),
        ("postgresql://ann:half@ahunter2@db/shop", "%40"),
    ],
    ids=["unparsable", "another database", "an @ in the password"],
)
def test_a_url_of_a_database_that_makes_no_sense(
    run_postroom: InProcess, url: str, remedy: str
) -> None:
    line = error_line(run_postroom, USAGE, DATABASE_URL=url)
    assert remedy in line
    assert "hunter2" not in line


def test_a_url_of_a_broker_that_makes_no_sense(run_postroom: InProcess, database_url: str) -> None:
    environment = {"DATABASE_URL": database_url, "RABBITMQ_URL": f"http://guest:{SECRET}@mq/"}
    line = error_line(run_postroom, USAGE, **environment)
    assert "Its form is amqp://user:password@host:5672/vhost" in line


def test_a_module_that_is_not_there(run_postroom: InProcess, tmp_path: Path) -> None:
    line = error_line(run_postroom, USAGE, "no_such_shop:relay")
    assert line == f"there is no module 'no_such_shop', neither installed nor in {tmp_path}."


def test_a_flag_that_the_relay_of_a_module_has_been_told(run_postroom: InProcess) -> None:
    line = error_line(run_postroom, USAGE, "shop:relay", "--batch-size", "5")
    assert line.startswith("--batch-size is for a worker that is made from URLs.")


@pytest.mark.parametrize(("hidden", "extra"), [("pamqp", "rabbitmq"), ("asyncpg", "postgres")])
def test_a_missing_extra(
    run_postroom: InProcess, monkeypatch: pytest.MonkeyPatch, hidden: str, extra: str
) -> None:
    for name in {*sys.modules, hidden}:
        if name.partition(".")[0] == hidden or name.startswith("postroom.publishers.rabbitmq"):
            monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, hidden, None)
    line = error_line(run_postroom, USAGE, DATABASE_URL="postgresql://db/shop")
    assert line.startswith(f"{hidden}")
    assert line.endswith(f"is not installed. Run: pip install 'postroom[{extra}]'")


async def test_the_missing_extra_of_the_command_itself(postroom: Commands) -> None:
    postroom.write("hide/sitecustomize.py", HIDE)
    command = postroom.execute(str(SCRIPT), "worker", PYTHONPATH="hide", HIDDEN="typer")
    line = await command.error_line(USAGE)
    assert line.startswith("postroom")
    assert "pip install 'postroom[cli]'" in line


def test_two_flags_that_do_not_go_together(run_postroom: InProcess) -> None:
    line = error_line(run_postroom, USAGE, "shop:relay", "--once", "--wait")
    assert "--once" in line
    assert "--wait" in line


@pytest.mark.parametrize("style", ["text", "json"])
def test_an_error_that_nobody_foresaw_is_in_the_log_as_it_is(
    run_postroom: InProcess, style: str
) -> None:
    run_postroom.write("shop.py", SHOP + "relay.store = None\n")
    worker = run_postroom("worker", "shop:relay", "--log-format", style)
    assert worker.code == 1
    logged = json.loads(worker.err)["exception"] if style == "json" else worker.err
    assert logged.splitlines()[-1] == "AttributeError: 'NoneType' object has no attribute 'open'"
    assert 'worker.py", line ' in logged


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_what_the_users_module_raises_is_one_line_and_a_traceback_if_asked_for(
    run_postroom: InProcess, level: str
) -> None:
    run_postroom.write("shop.py", SHOP + "def make():\n    return relay.store.no_such_thing\n")
    worker = run_postroom("worker", "shop:make", "--log-level", level)
    assert worker.code == USAGE
    *logged, line = worker.err.splitlines()
    assert line.startswith("postroom worker: cannot load shop:make: shop.py, line ")
    assert line.endswith("AttributeError: 'Store' object has no attribute 'no_such_thing'.")
    assert any("Traceback" in each for each in logged) == (level == "DEBUG")


# -- the database


def test_a_database_that_does_not_answer(run_postroom: InProcess, closed_port: int) -> None:
    url = URL(f"postgresql://ann@{HOST}:{closed_port}/shop").with_password(SECRET)
    line = error_line(run_postroom, DATABASE, DATABASE_URL=str(url))
    assert line.startswith(f"cannot use database `shop` at {HOST}:{closed_port}: ")
    assert "Check the URL, the user" in line


def test_an_option_that_the_driver_does_not_know(
    run_postroom: InProcess, database_url: str
) -> None:
    url = f"{database_url}?no_such_option=1"
    line = error_line(run_postroom, DATABASE, DATABASE_URL=url)
    assert "no_such_option" in line


def test_a_file_of_sqlite_that_is_not_there_is_not_made(
    run_postroom: InProcess, tmp_path: Path
) -> None:
    line = error_line(run_postroom, DATABASE, "--database", "sqlite:///no_such_shop.db")
    assert "no_such_shop.db" in line
    assert not (tmp_path / "no_such_shop.db").exists()


def test_a_host_that_nobody_knows(run_postroom: InProcess) -> None:
    url = URL("postgresql://ann@no-such-host.invalid/shop").with_password(SECRET)
    line = error_line(run_postroom, DATABASE, "--database", str(url))
    assert line.startswith("cannot use database `shop` at no-such-host.invalid: ")


def test_a_database_that_is_not_there(run_postroom: InProcess, database_url: str) -> None:
    url = make_url(database_url).set(database="no_such_shop")
    line = error_line(
        run_postroom, DATABASE, DATABASE_URL=url.render_as_string(hide_password=False)
    )
    assert 'database "no_such_shop" does not exist' in line


def test_a_wrong_password_of_the_database(run_postroom: InProcess) -> None:
    with private_server() as server:
        server.ask_for_password("ann", SECRET)
        url = URL(f"postgresql://ann@{HOST}:{server.port}/postgres")
        wrong = str(url.with_password(f"{SECRET} or not"))
        line = error_line(run_postroom, DATABASE, DATABASE_URL=wrong)
        right = str(url.with_password(SECRET))
        assert "no table" in error_line(run_postroom, SCHEMA, DATABASE_URL=right)
    assert 'password authentication failed for user "ann"' in line
    assert "Check the URL, the user and the password." in line


# -- its tables


def test_a_table_that_is_not_there(run_postroom: InProcess, database_url: str) -> None:
    line = error_line(run_postroom, SCHEMA, "--database", database_url, "--table", "letters")
    name = make_url(database_url).database
    assert line.startswith(f"no table `letters` in database `{name}` at {HOST}")
    assert "alembic upgrade head" in line


def test_tables_of_another_version(
    run_postroom: InProcess, database_url: str, sync_engine: Engine
) -> None:
    with sync_engine.begin() as connection:
        drifted.create_tables(connection)
        connection.execute(text("ALTER TABLE drifted DROP COLUMN headers"))
    words = ["--database", database_url, "--table", "drifted"]
    line = error_line(run_postroom, SCHEMA, *words)
    drifted.metadata.drop_all(sync_engine)
    assert "`headers`" in line
    assert "`drifted`" in line
    assert "upgrade" in line


def test_tables_that_the_user_may_not_use(
    run_postroom: InProcess, database_url: str, sync_engine: Engine, rabbitmq_url: str
) -> None:
    url = make_url(database_url).set(username=own_name("stranger"))
    with stranger(sync_engine, url.username or ""):
        environment = {
            "DATABASE_URL": url.render_as_string(hide_password=False),
            "RABBITMQ_URL": rabbitmq_url,
            "RABBITMQ_EXCHANGE": "amq.topic",
        }
        worker = run_postroom("worker", **environment)
        assert worker.code == DATABASE
    line = worker.err.splitlines()[-1]
    assert line.startswith("postroom worker: cannot use database ")
    assert "permission denied" in line
    assert "`postroom doctor` prints the GRANT statements" in line
    assert "Traceback" not in worker.err


@contextmanager
def stranger(engine: Engine, name: str) -> Iterator[None]:
    """Make a user who may do nothing, and remove it."""
    with engine.begin() as connection:
        connection.execute(
            text(f"CREATE ROLE {name} LOGIN PASSWORD '{SECRET}'".replace(":", r"\:"))
        )
    try:
        yield
    finally:
        with engine.begin() as connection:
            connection.execute(text(f"DROP ROLE {name}"))


# -- the broker


def test_a_broker_that_does_not_answer(
    run_postroom: InProcess, database_url: str, closed_port: int
) -> None:
    url = URL(f"amqp://guest@{HOST}:{closed_port}/").with_password(SECRET)
    line = error_line(run_postroom, BROKER, DATABASE_URL=database_url, RABBITMQ_URL=str(url))
    assert line.startswith(f"cannot reach RabbitMQ at {HOST}:{closed_port}/: ")


def test_a_wrong_password_of_the_broker(
    run_postroom: InProcess, database_url: str, rabbitmq_url: str
) -> None:
    wrong = str(URL(rabbitmq_url).with_password(SECRET))
    line = error_line(run_postroom, BROKER, DATABASE_URL=database_url, RABBITMQ_URL=wrong)
    assert "RabbitMQ refused the login of `guest`" in line
    assert "Check the user, the password and the vhost" in line


@pytest.mark.parametrize("once", [(), ("--once",)], ids=["run", "once"])
def test_an_exchange_that_is_not_there(
    run_postroom: InProcess, database_url: str, rabbitmq_url: str, once: tuple[str, ...]
) -> None:
    environment = {"DATABASE_URL": database_url, "RABBITMQ_URL": rabbitmq_url}
    line = error_line(run_postroom, BROKER, "--exchange", "no-such", *once, **environment)
    assert line.startswith("exchange `no-such` does not exist on RabbitMQ at ")
    assert "`postroom topology --apply`" in line


@pytest.mark.parametrize("wait", [(), ("--wait",)], ids=["at once", "wait"])
def test_a_topology_that_the_broker_has_otherwise(
    run_postroom: InProcess,
    engine: AsyncEngine,
    postgres_url: str,
    broker: Broker,
    rabbitmq_url: str,
    wait: tuple[str, ...],
) -> None:
    exchange = broker.exchange(broker.name("letters"), "fanout")
    run_postroom.write(
        "shop.py",
        "from sqlalchemy.ext.asyncio import create_async_engine\n"
        "from postroom import OutboxRelay\n"
        "from postroom.publishers.rabbitmq import Exchange, RabbitMQPublisher, Topology\n"
        "from tests.support.shop import outbox\n"
        f"TOPOLOGY = Topology(exchanges=[Exchange({exchange!r}, 'topic')])\n"
        f"publisher = RabbitMQPublisher({rabbitmq_url!r}, exchange={exchange!r},"
        " topology=TOPOLOGY)\n"
        f"relay = OutboxRelay(outbox, create_async_engine({postgres_url!r}), publisher)\n",
    )
    worker = run_postroom("worker", "shop:relay", *wait)
    assert worker.code == BROKER
    line = worker.err.splitlines()[-1]
    assert line.startswith("postroom worker: RabbitMQ at ")
    assert f"exchange `{exchange}`" in line
    assert line.endswith("Change the topology, or what is on the broker.")
    assert "Traceback" not in worker.err


@pytest.mark.parametrize("name", ["relay", "make_relay"])
def test_what_the_module_itself_finds_wrong_is_said_in_its_words(
    run_postroom: InProcess, name: str
) -> None:
    raised = "raise ConfigurationError('set SHOP_URL first.')"
    text = f"def make_relay(): {raised}" if name == "make_relay" else raised
    run_postroom.write("shop.py", f"from postroom import ConfigurationError\n{text}\n")
    assert error_line(run_postroom, USAGE, f"shop:{name}") == "set SHOP_URL first."
