"""The roles of docs/operate/security.md: each can do its work with what is granted there, no more.

The statements and patterns are taken from the page. Roles get names of the test's own.
"""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege
from sqlalchemy import URL, MetaData, create_engine, make_url
from sqlalchemy.orm import Session

from postroom import Outbox, OutboxRecord, UntypedEvent
from postroom.doctor.privileges import CAPTURE, DELIVER, OPERATE
from postroom.inspection.database.privileges import READ_POSITION, SEQUENCE
from tests.docs.pages import ROOT
from tests.support.broker import Broker
from tests.support.in_process import InProcess, in_process
from tests.support.rabbitmq import temporary_user
from tests.support.services import own_name

pytestmark = pytest.mark.extended
PAGE = (ROOT / "docs/operate/security.md").read_text()
SQL = re.compile(r"^```sql\n(.*?)^```", re.DOTALL | re.MULTILINE)
PERMISSIONS = re.compile(r"^rabbitmqctl set_permissions -p shop (\w+) (.*)$", re.MULTILINE)
PASSWORD = "a-password-of-a-role"
DATABASE, BROKER = 3, 5


class SecurityRecord(OutboxRecord):
    pass


outbox = Outbox(MetaData(), record=SecurityRecord)


class Roles:
    """The page's roles in a database with an outbox, by names of this test's own."""

    def __init__(self, url: URL, prefix: str) -> None:
        self._url, self._prefix = url, prefix
        script = "".join(SQL.findall(PAGE)).replace("shop_", prefix)
        self.names = re.findall(r"CREATE ROLE (\w+)", script)
        assert len(self.names) == 6
        with self.admin() as connection:
            connection.execute(script)  # of psycopg's simple protocol: many statements
            for name in self.names:
                connection.execute(f"ALTER ROLE {name} PASSWORD '{PASSWORD}'")
                connection.execute(f"GRANT {name} TO CURRENT_USER")  # to drop what it owns

    def admin(self) -> psycopg.Connection:
        url = self._url.render_as_string(hide_password=False)
        return psycopg.connect(url, autocommit=True)

    def url(self, role: str) -> str:
        """Give the URL with which a role of the page logs in."""
        login = self._url.set(username=f"{self._prefix}{role}", password=PASSWORD)
        return login.render_as_string(hide_password=False)

    def save(self, role: str, count: int = 1) -> None:
        """Save events of keys 0, 1 and so on, as an application does."""
        with psycopg.connect(self.url(role)) as connection:
            outbox.save_sync(connection, [event(number) for number in range(count)])

    def held(self, role: str) -> dict[str, set[str]]:
        """Give what a role holds on which table."""
        query = (
            "SELECT table_name, privilege_type FROM information_schema.role_table_grants"
            " WHERE grantee = %s AND table_schema = 'public'"
        )
        found: dict[str, set[str]] = {}
        with self.admin() as connection:
            for table, privilege in connection.execute(query, [f"{self._prefix}{role}"]):
                found.setdefault(table, set()).add(privilege)
        return found

    def drop(self) -> None:
        with self.admin() as connection:
            for name in self.names:
                connection.execute(f"DROP OWNED BY {name}")
                connection.execute(f"DROP ROLE {name}")


def event(number: int) -> UntypedEvent:
    return UntypedEvent(
        event_type="order.placed", aggregate_type="order", aggregate_id=number, payload={}
    )


@pytest.fixture
def roles(database_url: str) -> Iterator[Roles]:
    url = make_url(database_url).set(drivername="postgresql")
    engine = create_engine(url.set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        outbox.create_tables(connection)
    engine.dispose()
    roles = Roles(url, own_name("docs_"))
    yield roles
    roles.drop()


@pytest.fixture
def run_postroom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcess]:
    with in_process(tmp_path, monkeypatch, PASSWORD) as run_postroom:
        yield run_postroom


def test_each_role_gets_what_the_doctor_asks_for_and_nothing_else(roles: Roles) -> None:
    tables = {name: getattr(outbox.tables, name).name for name in OPERATE}
    for role, needs in (("app", CAPTURE), ("worker", DELIVER), ("operator", OPERATE)):
        wanted = {
            tables[kind]: set(each) - {READ_POSITION}  # a privilege on a column
            for kind, each in needs.items()
            if kind != SEQUENCE
        }
        assert roles.held(role) == wanted
    assert roles.held("reader") == {table.name: {"SELECT"} for table in outbox.tables}


def test_an_application_can_save_and_neither_read_nor_change(roles: Roles) -> None:
    roles.save("app", 2)
    engine = create_engine(make_url(roles.url("app")).set(drivername="postgresql+psycopg"))
    for count in (1, 3):
        with Session(engine) as session, session.begin():
            outbox.dispatcher(session).dispatch_sync([event(number) for number in range(count)])
    engine.dispose()
    for statement in ("SELECT payload", "UPDATE", "DELETE"):
        target = "outbox SET ready = false" if statement == "UPDATE" else "FROM outbox"
        with (
            psycopg.connect(roles.url("app")) as connection,
            pytest.raises(InsufficientPrivilege),
        ):
            connection.execute(f"{statement} {target}")


def test_the_owner_creates_tables(roles: Roles, run_postroom: InProcess) -> None:
    words = ("--database", roles.url("owner"), "--table", "outbox_of_the_owner")
    created = run_postroom("schema", "sql", "--apply", *words)
    assert created.code == 0, created.err


def problems(run_postroom: InProcess, *words: str) -> list[tuple[str, object]]:
    """Give what `postroom doctor` finds. A server of tests may have autovacuum off."""
    checks = json.loads(run_postroom("doctor", *words, "--json").out)["checks"]
    return [
        (each["check"], finding)
        for each in checks
        for finding in each["findings"]
        if finding["level"] == "problem" and each["check"] != "autovacuum"
    ]


@pytest.mark.parametrize("role", ["app", "operator", "reader"])
def test_the_doctor_finds_no_problem_with_a_role(
    roles: Roles, run_postroom: InProcess, role: str
) -> None:
    assert problems(run_postroom, "--database", roles.url(role)) == []


def permissions(user: str) -> dict[str, str]:
    """Give the patterns that the page grants a user of RabbitMQ."""
    [words] = [words for name, words in PERMISSIONS.findall(PAGE) if name == user]
    return dict(zip(("configure", "write", "read"), shlex.split(words), strict=True))


def test_a_worker_delivers_to_a_broker_where_it_may_only_write(
    roles: Roles, run_postroom: InProcess, rabbitmq_url: str, broker: Broker
) -> None:
    broker.exchange("shop")
    queue = broker.queue("invoices", "#", exchange="shop")
    roles.save("app", 3)
    with temporary_user(rabbitmq_url) as user:
        user.may(**permissions("shop_worker"))
        words = ("--database", roles.url("worker"), "--broker", user.url, "--exchange", "shop")
        worked = run_postroom("worker", *words, "--once")
        assert worked.code == 0, worked.err
        assert problems(run_postroom, *words) == []
        with pytest.raises(InsufficientPrivilege):
            roles.save("worker")
    assert len(broker.take(queue)) == 3


def test_who_declares_the_topology_may_do_so_and_a_worker_may_not(
    run_postroom: InProcess, rabbitmq_url: str, broker: Broker
) -> None:
    run_postroom.write(
        "shop.py",
        "from postroom.publishers.rabbitmq import Binding, Exchange, Queue, Topology\n"
        "topology = Topology(exchanges=[Exchange('shop')],"
        " queues=[Queue('invoices', [Binding('shop', '#')])])\n",
    )
    with temporary_user(rabbitmq_url) as user:
        words = ("topology", "shop:topology", "--broker", user.url, "--apply")
        user.may(**permissions("shop_worker"))
        refused = run_postroom(*words)
        assert refused.code == BROKER
        assert refused.err.endswith(
            "Give the user the permission, with rabbitmqctl set_permissions.\n"
        )
        user.may(**permissions("shop_topology"))
        declared = run_postroom(*words)
        assert declared.code == 0, declared.err
        user.may(**permissions("shop_consumer"))
        broker.publish("shop", "order.placed")
        consumer = Broker(user.url)
        assert len(consumer.take("invoices")) == 1
        consumer.close()


def test_an_operator_can_repair_and_a_reader_only_look(
    roles: Roles, run_postroom: InProcess
) -> None:
    roles.save("app", 3)
    with roles.admin() as admin:
        admin.execute("UPDATE outbox SET status = 'failed', ready = false WHERE position = 1")
    looking = ("status", "list", "show 1", "why order/0", "failures", "blocked", "workers", "audit")
    changing = (
        "retry 1 --yes",
        "pause --yes",
        "resume --yes",
        "discard 1 --yes",
        "purge --older-than 1d --yes",
    )
    for role in ("reader", "operator"):
        for words in looking:
            done = run_postroom(*words.split(), DATABASE_URL=roles.url(role))
            assert done.code in (0, 1), (role, words, done.err)
            assert done.err == ""
    for words in ("retry 1 --yes", "pause --yes", "discard 1 --yes"):
        refused = run_postroom(*words.split(), DATABASE_URL=roles.url("reader"))
        assert refused.code == DATABASE, (words, refused.out)
    for words in changing:
        done = run_postroom(*words.split(), DATABASE_URL=roles.url("operator"))
        assert done.code == 0, (words, done.err)
    with (
        psycopg.connect(roles.url("operator")) as connection,
        pytest.raises(InsufficientPrivilege),
    ):
        connection.execute("DELETE FROM outbox_audit")


def test_a_consumer_notes_what_it_has_received(roles: Roles) -> None:
    engine = create_engine(make_url(roles.url("consumer")).set(drivername="postgresql+psycopg"))
    for expected in (True, False):  # the second time it is a repeat
        with Session(engine) as session, session.begin():
            accepted = outbox.inbox.accept_sync(session, "message-1", consumer="invoices")
            assert accepted is expected
    engine.dispose()
    with (
        psycopg.connect(roles.url("consumer")) as connection,
        pytest.raises(InsufficientPrivilege),
    ):
        connection.execute("SELECT 1 FROM outbox")
