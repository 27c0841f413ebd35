"""The commands of docs/operate/backup.md: dump, restore, look, and deliver again."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import MetaData, create_engine, make_url

from postroom import Outbox, OutboxRecord, UntypedEvent
from tests.docs.pages import ROOT
from tests.support.broker import Broker
from tests.support.command import SCRIPT
from tests.support.postgres import drop_database
from tests.support.program import Done, run_program
from tests.support.services import own_name
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.extended
PAGE = (ROOT / "docs/operate/backup.md").read_text()
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
BACKUP, RESTORE, LOOK, DELIVER, SQLITE = BLOCK.findall(PAGE)
MAY_FIND_PROBLEMS = ("postroom doctor", "postroom status")


class BackupRecord(OutboxRecord):
    pass


outbox = Outbox(MetaData(), record=BackupRecord)


def event(number: int) -> UntypedEvent:
    return UntypedEvent(
        event_type="order.placed", aggregate_type="order", aggregate_id=number, payload={}
    )


class Terminal:
    """Somebody who types what the page says, with servers of this test's own."""

    def __init__(self, folder: Path, urls: dict[str, str], **environment: str) -> None:
        self._folder, self._urls = folder, urls
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **environment}

    def types(self, block: str) -> str:
        """Run the lines of a block, one by one; give what they print."""
        return "".join(map(self._type, block.splitlines()))

    def _type(self, line: str) -> str:
        for name, here in self._urls.items():
            line = line.replace(name, here)
        program, *words = shlex.split(line)
        if program == "export":
            [(name, _, value)] = [each.partition("=") for each in words]
            self._environment[name] = value
            return ""
        done = self._postroom(words) if program == "postroom" else self._run(line)
        codes = (0, 1) if line.startswith(MAY_FIND_PROBLEMS) else (0,)
        assert done.code in codes, (line, done.out, done.err)
        return done.out + done.err

    def _postroom(self, words: list[str]) -> Done:
        return run_program([SCRIPT, *words], folder=self._folder, environment=self._environment)

    def _run(self, line: str) -> Done:
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def restored(database_url: str) -> Iterator[str]:
    """The name of a database that the page creates."""
    name = own_name("restored")
    yield name
    drop_database(make_url(database_url).set(drivername="postgresql"), name)


def plain(database_url: str, name: str) -> str:
    url = make_url(database_url).set(drivername="postgresql", database=name)
    return url.render_as_string(hide_password=False)


def test_what_was_delivered_after_a_backup_is_delivered_again_after_its_restore(
    database_url: str, restored: str, rabbitmq_url: str, broker: Broker, tmp_path: Path
) -> None:
    exchange = broker.exchange("shop")
    queue = broker.queue("orders", "#", exchange=exchange)
    here = make_url(database_url)
    original, copy = plain(database_url, here.database or ""), plain(database_url, restored)
    urls = {
        "postgresql://app:secret@db:5432/shop_restored": copy,
        "postgresql://app:secret@db:5432/postgres": plain(database_url, "postgres"),
        "postgresql://app:secret@db:5432/shop": original,
        " shop_restored": f" {restored}",
        "amqp://app:secret@mq:5672/shop": rabbitmq_url,
        "RABBITMQ_EXCHANGE=shop": f"RABBITMQ_EXCHANGE={exchange}",
    }
    terminal = Terminal(tmp_path, urls, RABBITMQ_URL=rabbitmq_url, RABBITMQ_EXCHANGE=exchange)
    create_tables(original)
    deliver = f"postroom worker --once --database {original}"

    save(original, event(1))
    terminal.types(deliver)
    before = broker.take(queue)
    save(original, event(2), event(3))
    terminal.types(BACKUP)
    save(original, event(4))
    terminal.types(deliver)
    first = {each.message_id for each in broker.take(queue)}
    assert (len(before), len(first)) == (1, 3)

    terminal.types(RESTORE)
    said = terminal.types(LOOK)
    assert "as it should be" in said
    assert "restored from a backup" in said
    assert said.count("order.placed") >= 2
    decide = re.findall(r"`(postroom (?:discard|replay) [^`]+)`", PAGE)
    for command, count in zip(decide, ("2 order.placed", "1 order.placed"), strict=True):
        until = re.sub(r"(--until|--since) \S+", r"\1 {}", command)
        times = ("2000-01-31T11:00", "2100-01-31T12:00")[-until.count("{}") :]
        assert count in terminal.types(f"{until.format(*times)} --dry-run")
    terminal.types("postroom worker --once")
    assert broker.take(queue) == []  # deliveries are paused
    assert "2 delivered" in terminal.types(DELIVER)
    again = {each.message_id for each in broker.take(queue)}
    assert len(again) == 2
    assert again < first


def test_a_sqlite_file_is_backed_up_with_its_recent_commits(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    with engine.begin() as connection:
        outbox.create_tables(connection)
    terminal = Terminal(tmp_path, {})
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA journal_mode = wal")
    with engine.begin() as connection:
        outbox.save_sync(connection, [event(1)])
    terminal.types(SQLITE)
    listed = terminal.types("postroom list --state pending --database sqlite:///shop-backup.db")
    assert "order.placed" in listed
    engine.dispose()


def create_tables(url: str) -> None:
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        outbox.create_tables(connection)
    engine.dispose()


def save(url: str, *events: UntypedEvent) -> None:
    with psycopg.connect(url) as connection:
        outbox.save_sync(connection, events)
