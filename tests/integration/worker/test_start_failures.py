"""What keeps a worker from its work: an exit code, and one line that names what is wrong."""

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
from postroom.cli.errors import Exit
from tests.chaos.server import private_server
from tests.support.broker import Broker
from tests.support.command import SCRIPT, Commands
from tests.support.in_process import InProcess
from tests.support.listening import HOST
from tests.support.services import SECRET, own_name

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
from postroom import ConfigurationError, MemoryPublisher, Outbox, OutboxRecord, OutboxRelay

outbox = Outbox(MetaData(), record=type("ShopRecord", (OutboxRecord,), {}))
relay = OutboxRelay(outbox, create_async_engine("sqlite+aiosqlite:///shop.db"), MemoryPublisher())

def raises():
    return relay.store.no_such_thing

def unconfigured():
    raise ConfigurationError("set SHOP_URL first.")
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
    """Return the line that the worker writes, without the name that each line begins with."""
    line = run_postroom("worker", *words, **environment).error_line(code)
    assert line.startswith("postroom worker: ")
    assert line.endswith((".", "'", ")"))
    return line.removeprefix("postroom worker: ")


# -- usage


@pytest.mark.parametrize(
    ("words", "environment", "says"),
    [
        ((), {}, "--database"),
        ((), {"DATABASE_URL": f"postgresql//ann:{SECRET}@db"}, "postgresql://user:password@host"),
        ((), {"DATABASE_URL": f"mysql://ann:{SECRET}@db/shop"}, "postgresql://user:password@host"),
        ((), {"DATABASE_URL": "postgresql://ann:half@ahunter2@db/shop"}, "%40"),
        (("no_such_shop:relay",), {}, "no module 'no_such_shop'"),
        (("shop:relay", "--batch-size", "5"), {}, "--batch-size"),
        (("shop:relay", "--once", "--wait"), {}, "--once"),
        (("shop:unconfigured",), {}, "set SHOP_URL first."),
    ],
)
def test_a_command_line_that_makes_no_sense(
    run_postroom: InProcess, words: tuple[str, ...], environment: dict[str, str], says: str
) -> None:
    run_postroom.write("shop.py", SHOP)
    line = error_line(run_postroom, Exit.USAGE, *words, **environment)
    assert says in line
    assert "hunter2" not in line


def test_a_url_of_a_broker_that_makes_no_sense(run_postroom: InProcess, database_url: str) -> None:
    environment = {"DATABASE_URL": database_url, "RABBITMQ_URL": f"http://guest:{SECRET}@mq/"}
    assert "amqp://user:password@host" in error_line(run_postroom, Exit.USAGE, **environment)


@pytest.mark.parametrize(("hidden", "extra"), [("pamqp", "rabbitmq"), ("asyncpg", "postgres")])
def test_a_missing_extra(
    run_postroom: InProcess, monkeypatch: pytest.MonkeyPatch, hidden: str, extra: str
) -> None:
    for name in {*sys.modules, hidden}:
        if name.partition(".")[0] == hidden or name.startswith("postroom.publishers.rabbitmq"):
            monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, hidden, None)
    line = error_line(run_postroom, Exit.USAGE, DATABASE_URL="postgresql://db/shop")
    assert line.startswith(hidden)
    assert f"'postroom[{extra}]'" in line


async def test_the_missing_extra_of_the_command_itself(postroom: Commands) -> None:
    postroom.write("hide/sitecustomize.py", HIDE)
    command = postroom.execute(str(SCRIPT), "worker", PYTHONPATH="hide", HIDDEN="typer")
    assert "pip install 'postroom[cli]'" in await command.error_line(Exit.USAGE)


@pytest.mark.parametrize("style", ["text", "json"])
def test_an_error_that_nobody_foresaw_is_in_the_log_as_it_is(
    run_postroom: InProcess, style: str
) -> None:
    run_postroom.write("shop.py", SHOP + "relay.store = None\n")
    worker = run_postroom("worker", "shop:relay", "--log-format", style)
    assert worker.code == 1
    logged = json.loads(worker.err)["exception"] if style == "json" else worker.err
    assert logged.splitlines()[-1].startswith("AttributeError: ")
    assert 'worker.py", line ' in logged


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_what_the_users_module_raises_is_one_line_and_a_traceback_if_asked_for(
    run_postroom: InProcess, level: str
) -> None:
    run_postroom.write("shop.py", SHOP)
    worker = run_postroom("worker", "shop:raises", "--log-level", level)
    assert worker.code == Exit.USAGE
    *logged, line = worker.err.splitlines()
    assert "shop:raises: shop.py, line " in line
    assert any("Traceback" in each for each in logged) == (level == "DEBUG")


# -- the database


def test_a_database_that_does_not_answer(run_postroom: InProcess, closed_port: int) -> None:
    for host in (f"{HOST}:{closed_port}", "no-such-host.invalid"):
        url = str(URL(f"postgresql://ann@{host}/shop").with_password(SECRET))
        line = error_line(run_postroom, Exit.DATABASE, DATABASE_URL=url)
        assert f"`shop` at {host}: " in line


def test_a_file_of_sqlite_that_is_not_there_is_not_made(
    run_postroom: InProcess, tmp_path: Path
) -> None:
    line = error_line(run_postroom, Exit.DATABASE, "--database", "sqlite:///no_such_shop.db")
    assert "no_such_shop.db" in line
    assert not (tmp_path / "no_such_shop.db").exists()


def test_what_the_server_refuses_is_in_its_words(
    run_postroom: InProcess, database_url: str
) -> None:
    url = make_url(database_url)
    for refused, says in (
        (url.set(database="no_such_shop"), '"no_such_shop" does not exist'),
        (url.update_query_dict({"no_such_option": "1"}), "no_such_option"),
    ):
        address = refused.render_as_string(hide_password=False)
        assert says in error_line(run_postroom, Exit.DATABASE, DATABASE_URL=address)


@pytest.mark.extended  # the session's server may trust this machine
def test_a_wrong_password_of_the_database(run_postroom: InProcess) -> None:
    with private_server() as server:
        server.ask_for_password("ann", SECRET)
        url = URL(f"postgresql://ann@{HOST}:{server.port}/postgres")
        wrong, right = str(url.with_password(f"{SECRET} or not")), str(url.with_password(SECRET))
        line = error_line(run_postroom, Exit.DATABASE, DATABASE_URL=wrong)
        assert "no table" in error_line(run_postroom, Exit.SCHEMA, DATABASE_URL=right)
    assert '"ann"' in line


# -- its tables


def test_a_table_that_is_not_there(run_postroom: InProcess, database_url: str) -> None:
    words = ["--database", database_url, "--table", "letters"]
    line = error_line(run_postroom, Exit.SCHEMA, *words)
    name = make_url(database_url).database
    assert "`letters`" in line
    assert f"`{name}` at {HOST}" in line


def test_tables_of_another_version(
    run_postroom: InProcess, database_url: str, sync_engine: Engine
) -> None:
    with sync_engine.begin() as connection:
        drifted.create_tables(connection)
        connection.execute(text("ALTER TABLE drifted DROP COLUMN headers"))
    words = ["--database", database_url, "--table", "drifted"]
    line = error_line(run_postroom, Exit.SCHEMA, *words)
    assert "`headers`" in line
    with sync_engine.begin() as connection:
        drifted.metadata.drop_all(connection)


def test_tables_that_the_user_may_not_use(
    run_postroom: InProcess, database_url: str, sync_engine: Engine, rabbitmq_url: str
) -> None:
    url = make_url(database_url).set(username=own_name("role"))
    with role_without_permissions(sync_engine, url.username or ""):
        worker = run_postroom(
            "worker",
            DATABASE_URL=url.render_as_string(hide_password=False),
            RABBITMQ_URL=rabbitmq_url,
            RABBITMQ_EXCHANGE="amq.topic",
        )
    assert worker.code == Exit.DATABASE
    line = worker.err.splitlines()[-1]
    assert "permission denied" in line
    assert "`postroom doctor` prints the GRANT statements" in line
    assert "Traceback" not in worker.err


@contextmanager
def role_without_permissions(engine: Engine, name: str) -> Iterator[None]:
    """Create a role that may log in and nothing else, and drop it."""
    password = SECRET.replace(":", r"\:")
    with engine.begin() as connection:
        connection.execute(text(f"CREATE ROLE {name} LOGIN PASSWORD '{password}'"))
    try:
        yield
    finally:
        with engine.begin() as connection:
            connection.execute(text(f"DROP ROLE {name}"))


# -- the broker


def test_a_broker_that_does_not_answer_or_refuses_the_login(
    run_postroom: InProcess, database_url: str, rabbitmq_url: str, closed_port: int
) -> None:
    wrong = URL(rabbitmq_url).with_password(SECRET)
    for url in (wrong.with_host(HOST).with_port(closed_port), wrong):
        environment = {"DATABASE_URL": database_url, "RABBITMQ_URL": str(url)}
        line = error_line(run_postroom, Exit.BROKER, **environment)
        assert f"{url.host}:{url.port}{url.path}" in line


@pytest.mark.parametrize("once", [(), ("--once",)], ids=["run", "once"])
def test_an_exchange_that_is_not_there(
    run_postroom: InProcess, database_url: str, rabbitmq_url: str, once: tuple[str, ...]
) -> None:
    environment = {"DATABASE_URL": database_url, "RABBITMQ_URL": rabbitmq_url}
    line = error_line(run_postroom, Exit.BROKER, "--exchange", "no-such", *once, **environment)
    assert line.startswith("exchange `no-such` ")


@pytest.mark.parametrize("wait", [(), ("--wait",)], ids=["at once", "wait"])
def test_a_topology_that_differs_from_the_brokers(
    run_postroom: InProcess,
    engine: AsyncEngine,
    postgres_url: str,
    broker: Broker,
    rabbitmq_url: str,
    wait: tuple[str, ...],
) -> None:
    exchange = broker.exchange("letters", "fanout")
    run_postroom.write(
        "shop.py",
        f"""
from sqlalchemy.ext.asyncio import create_async_engine
from postroom import OutboxRelay
from postroom.publishers.rabbitmq import Exchange, RabbitMQPublisher, Topology
from tests.support.shop import outbox

topology = Topology(exchanges=[Exchange({exchange!r}, 'topic')])
publisher = RabbitMQPublisher({rabbitmq_url!r}, exchange={exchange!r}, topology=topology)
relay = OutboxRelay(outbox, create_async_engine({postgres_url!r}), publisher)
""",
    )
    worker = run_postroom("worker", "shop:relay", *wait)
    assert worker.code == Exit.BROKER
    line = worker.err.splitlines()[-1]
    assert line.startswith("postroom worker: RabbitMQ at ")
    assert f"exchange `{exchange}`" in line
    assert "Traceback" not in worker.err
