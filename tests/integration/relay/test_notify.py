"""A commit wakes the relays of other processes: after it, beside it, and at no risk to it."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import URL, Engine, MetaData, NullPool, create_engine, make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from postroom import MemoryPublisher, Outbox, OutboxRecord, OutboxRelay, UntypedEvent
from postroom.wakeup.notifier import PAUSE, Notifier, partitions_in
from tests.support.command import ROOT
from tests.support.listening import serving
from tests.support.program import Program
from tests.support.proxy import How, Proxy
from tests.support.waiting import eventually

TABLE = "notified"
HOUR = timedelta(hours=1)
MARK = "mark"
Notify = Callable[..., Notifier]
Connection = psycopg.AsyncConnection[Any]
LISTENERS = text(
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name = :name AND query LIKE 'LISTEN%'"
)


def new_outbox() -> Outbox:
    """Give an outbox that knows of nobody else's commits, as one in another process would."""
    return Outbox(MetaData(), table=TABLE, record=type("Notified", (OutboxRecord,), {}))


@pytest.fixture
def outbox(sync_engine: Engine) -> Iterator[Outbox]:
    """An application's outbox."""
    outbox = new_outbox()
    with sync_engine.begin() as connection:
        outbox.create_tables(connection)
    yield outbox
    outbox.metadata.drop_all(sync_engine)


@pytest.fixture
def notify(outbox: Outbox) -> Iterator[Notify]:
    """Have an outbox notify, until the test is over."""
    with ExitStack() as stack:

        def notify(engine: Engine | AsyncEngine, **options: Any) -> Notifier:
            notifier = outbox.notify_workers(engine, **options)
            stack.callback(notifier.close)
            return notifier

        yield notify


@pytest.fixture
async def psycopg_engine(postgres_sync_url: str) -> AsyncIterator[AsyncEngine]:
    """PostgreSQL through psycopg, async."""
    engine = create_async_engine(postgres_sync_url, poolclass=NullPool)
    yield engine
    await engine.dispose()


class Listener:
    """Hears what is notified, as a program would that somebody else wrote, and looks each time."""

    def __init__(self, connection: Connection, other: Connection) -> None:
        self.heard: list[psycopg.Notify] = []
        self.seen = 0
        """How many records there were when it last heard of a commit."""
        self._connection = connection
        self._other = other

    async def listen(self) -> None:
        async for notification in self._connection.notifies():
            if notification.payload != MARK:
                found = await self._other.execute(f"SELECT count(*) FROM {TABLE}")
                [self.seen] = await found.fetchone() or [0]
            self.heard.append(notification)

    @property
    def commits(self) -> list[psycopg.Notify]:
        return [each for each in self.heard if each.payload != MARK]

    async def hears(self, count: int) -> None:
        await eventually(lambda: len(self.commits) >= count)

    async def catch_up(self) -> None:
        """Hear all that has been sent up to now: notifications come in the order of commits."""
        before = self._marks
        await self._other.execute("SELECT pg_notify('outbox_channel', %s)", [MARK])
        await eventually(lambda: self._marks > before)

    @property
    def _marks(self) -> int:
        return len(self.heard) - len(self.commits)


@pytest.fixture
async def listener(postgres_url: str) -> AsyncIterator[Listener]:
    url = make_url(postgres_url).set(drivername="postgresql").render_as_string(hide_password=False)
    async with await connect(url) as connection, await connect(url) as other:
        await connection.execute("LISTEN outbox_channel")
        listener = Listener(connection, other)
        task = asyncio.create_task(listener.listen())
        yield listener
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def connect(url: str) -> Connection:
    return await psycopg.AsyncConnection.connect(url, autocommit=True)


class Line:
    """A way to the server that can be cut."""

    def __init__(self, url: URL) -> None:
        self.proxy = Proxy(url.port or 5432)
        self.url = url
        self._port = 0
        self._open = AsyncExitStack()

    async def mend(self) -> None:
        self._port = await self._open.enter_async_context(serving(self.proxy.serve, self._port))
        self.url = self.url.set(port=self._port)

    async def cut(self) -> None:
        self.proxy.suffer(How.RST)
        await self._open.aclose()


@asynccontextmanager
async def line_to(url: str, driver: str = "asyncpg") -> AsyncIterator[Line]:
    line = Line(make_url(url).set(drivername=f"postgresql+{driver}"))
    await line.mend()
    yield line
    await line.cut()


def letter() -> UntypedEvent:
    return UntypedEvent(event_type="letter.sent", payload={})


def save(outbox: Outbox, session: Session) -> None:
    outbox.dispatcher(session).dispatch_sync([letter()])


def commit(outbox: Outbox, engine: Engine, times: int = 1) -> None:
    with Session(engine) as session:
        for _ in range(times):
            save(outbox, session)
            session.commit()


async def commit_async(outbox: Outbox, engine: AsyncEngine) -> None:
    async with AsyncSession(engine) as session, session.begin():
        await outbox.dispatcher(session).dispatch([letter()])


def notifying_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "postroom notifier"]


# -- when


@pytest.mark.requirement("C7")
@pytest.mark.parametrize("name", ["sync_engine", "engine", "psycopg_engine"])
async def test_a_commit_is_notified_once_after_it_and_from_another_connection(
    request: pytest.FixtureRequest,
    sync_engine: Engine,
    engine: AsyncEngine,
    psycopg_engine: AsyncEngine,
    outbox: Outbox,
    notify: Notify,
    listener: Listener,
    name: str,
) -> None:
    used: Engine | AsyncEngine = request.getfixturevalue(name)
    notifier = notify(used)
    own = []
    partitions: list[int] = []

    def begin(session: Session) -> None:
        save(outbox, session)
        session.flush()
        partitions.extend(session.scalars(text(f"SELECT partition FROM {TABLE}")))
        own.append(session.scalar(text("SELECT pg_backend_pid()")))

    if isinstance(used, AsyncEngine):
        async with AsyncSession(used) as session:
            await session.run_sync(begin)
            await listener.catch_up()
            assert listener.commits == []
            await session.commit()
            await listener.hears(1)
    else:
        with Session(used) as sync_session:
            begin(sync_session)
            await listener.catch_up()
            assert listener.commits == []
            sync_session.commit()
            await listener.hears(1)
    await asyncio.to_thread(notifier.close)
    await listener.catch_up()
    [heard] = listener.commits
    assert (heard.channel, heard.payload) == ("outbox_channel", f"{TABLE} {partitions[0]}")
    assert heard.pid not in own


@pytest.mark.requirement("C7")
async def test_what_is_rolled_back_is_not_notified(
    sync_engine: Engine, outbox: Outbox, notify: Notify, listener: Listener
) -> None:
    notifier = notify(sync_engine)
    with Session(sync_engine) as session:
        save(outbox, session)
        session.flush()
        session.rollback()
        with session.begin_nested():
            save(outbox, session)
        session.rollback()
        session.execute(text("SELECT 1"))
        session.commit()
    notifier.close()
    await listener.catch_up()
    assert listener.commits == []


@pytest.mark.requirement("C7")
async def test_a_burst_of_commits_gives_few_notifications_that_name_all_partitions(
    postgres_sync_url: str, outbox: Outbox, notify: Notify, listener: Listener
) -> None:
    engine = create_engine(postgres_sync_url)
    notify(engine)
    begun = time.monotonic()
    await asyncio.to_thread(commit, outbox, engine, 200)
    await eventually(lambda: listener.seen == 200)
    took = time.monotonic() - begun
    assert len(listener.commits) <= took / PAUSE + 2
    with engine.connect() as connection:
        committed = set(connection.scalars(text(f"SELECT partition FROM {TABLE}")))
    engine.dispose()

    def partitions() -> set[int]:
        told = (partitions_in(each.payload, TABLE) or set[int]() for each in listener.commits)
        return set[int]().union(*told)

    await eventually(lambda: partitions() == committed)


async def test_the_commits_of_many_threads_are_notified_by_one(
    sync_engine: Engine, outbox: Outbox, notify: Notify, listener: Listener
) -> None:
    notify(sync_engine)
    work = (asyncio.to_thread(commit, outbox, sync_engine, 10) for _ in range(8))
    await asyncio.gather(*work)
    await eventually(lambda: listener.seen == 80)
    assert len(notifying_threads()) == 1


@pytest.mark.requirement("C7")
async def test_a_commit_while_a_notification_is_being_sent_is_notified_too(
    engine: AsyncEngine, postgres_url: str, outbox: Outbox, notify: Notify, listener: Listener
) -> None:
    async with line_to(postgres_url) as line:
        notifier = notify(create_async_engine(line.url))
        await commit_async(outbox, engine)
        await listener.hears(1)
        line.proxy.delay = 0.2
        await commit_async(outbox, engine)
        await listener.hears(2)  # what sent it has not heard of that, and is busy
        await commit_async(outbox, engine)
        await listener.hears(3)
        await asyncio.to_thread(notifier.close)


async def test_close_sends_the_last_and_ends_it(
    sync_engine: Engine, outbox: Outbox, notify: Notify, listener: Listener
) -> None:
    notifier = notify(sync_engine)
    commit(outbox, sync_engine)
    notifier.close()
    notifier.close()
    await listener.catch_up()
    assert len(listener.commits) == 1
    assert notifying_threads() == []
    commit(outbox, sync_engine)
    await listener.catch_up()
    assert len(listener.commits) == 1
    assert notifying_threads() == []


def test_what_is_closed_before_the_first_commit_never_begins(
    sync_engine: Engine, outbox: Outbox, notify: Notify
) -> None:
    notify(sync_engine).close()
    commit(outbox, sync_engine)
    assert notifying_threads() == []


async def test_a_channel_may_have_any_name(
    engine: AsyncEngine, outbox: Outbox, notify: Notify
) -> None:
    channel = 'Shop "7" of ours'
    notify(engine, channel=channel)
    async with relaying(engine, listen=channel) as publisher:
        await commit_async(outbox, engine)
        await eventually(lambda: len(publisher.messages) == 1)


def test_on_sqlite_nobody_is_notified_and_nothing_is_started(sqlite_engine: Engine) -> None:
    outbox = new_outbox()
    with sqlite_engine.begin() as connection:
        outbox.create_tables(connection)
    notifier = outbox.notify_workers(sqlite_engine)
    commit(outbox, sqlite_engine)
    assert notifying_threads() == []
    notifier.close()


@pytest.mark.parametrize("driver", ["psycopg", pytest.param("asyncpg", marks=pytest.mark.extended)])
async def test_a_process_that_forks_notifies_from_both_halves(
    postgres_url: str, outbox: Outbox, listener: Listener, driver: str, tmp_path: Path
) -> None:
    url = make_url(postgres_url).set(drivername=f"postgresql+{driver}")
    address = url.render_as_string(hide_password=False)
    read, write = os.pipe()
    with (
        os.fdopen(read, "rb") as stdin,
        os.fdopen(write, "wb", buffering=0) as line,  # without it, the program ends
        (tmp_path / "errors").open("w+b") as errors,
    ):
        program = Program(
            ["-m", "tests.integration.relay.forking_app", address, TABLE],
            folder=ROOT,
            environment=os.environ,
            stdin=stdin,
            stderr=errors,
        )
        for count in (1, 3):
            await listener.hears(count)
            line.write(b"\n")
        code = await asyncio.to_thread(program.wait)
        assert (code, (tmp_path / "errors").read_text()) == (0, "")
    assert len({each.pid for each in listener.commits}) == 2


# -- what may go wrong


async def test_a_connection_that_is_killed_is_made_again_and_nobody_notices(
    sync_engine: Engine,
    outbox: Outbox,
    notify: Notify,
    listener: Listener,
    caplog: pytest.LogCaptureFixture,
) -> None:
    notify(sync_engine)
    commit(outbox, sync_engine)
    await listener.hears(1)
    kill(sync_engine, listener.commits[0].pid)
    commit(outbox, sync_engine)
    await listener.hears(2)
    assert listener.commits[0].pid != listener.commits[1].pid
    assert caplog.records == []


@pytest.mark.requirement("C7")
@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_a_server_that_cannot_be_notified_harms_no_commit_and_is_logged_once(
    engine: AsyncEngine,
    postgres_url: str,
    outbox: Outbox,
    notify: Notify,
    listener: Listener,
    caplog: pytest.LogCaptureFixture,
    driver: str,
) -> None:
    def logged() -> int:
        return sum("cannot notify workers" in each.getMessage() for each in caplog.records)

    async with line_to(postgres_url, driver) as line:
        make: Any = create_engine if driver == "psycopg" else create_async_engine
        notifier = notify(make(line.url))
        for times in (1, 2):
            for count in (2 * times - 1, 2 * times):  # at the second, the first was answered
                await commit_async(outbox, engine)
                await listener.hears(count)
            await line.cut()
            for _ in range(3):
                await commit_async(outbox, engine)
            await eventually(lambda: logged() == times)  # noqa: B023
            await line.mend()
        await commit_async(outbox, engine)
        await listener.hears(5)
        await asyncio.to_thread(notifier.close)
    assert logged() == 2
    assert {each.levelno for each in caplog.records} == {logging.WARNING}


async def test_a_connection_that_stalls_holds_up_no_commit(
    engine: AsyncEngine, postgres_url: str, outbox: Outbox, notify: Notify, listener: Listener
) -> None:
    async with line_to(postgres_url) as line:
        notifier = notify(create_async_engine(line.url))
        await commit_async(outbox, engine)
        await listener.hears(1)
        line.proxy.suffer(How.STALL)
        for _ in range(5):
            await commit_async(outbox, engine)
        line.proxy.suffer(How.RST)  # as somebody will in the end
        await listener.hears(2)
        await asyncio.to_thread(notifier.close)


# -- who is woken


def kill(engine: Engine, pid: int | None) -> None:
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})


def listeners(engine: Engine, name: str) -> list[int]:
    """Give the backends of an application that listen."""
    with engine.connect() as connection:
        return list(connection.scalars(LISTENERS, {"name": name}))


@asynccontextmanager
async def relaying(engine: AsyncEngine, **options: Any) -> AsyncIterator[MemoryPublisher]:
    """Run a relay that knows nothing of the application, and hardly ever polls; it is idle."""
    publisher = MemoryPublisher()
    chosen: dict[str, Any] = {"poll_interval": HOUR, **options}
    async with OutboxRelay(new_outbox(), engine, publisher, **chosen).running() as relay:
        await eventually(lambda: relay.idle)
        yield publisher


@pytest.fixture(params=["asyncpg", "psycopg"])
async def relay_engine(
    request: pytest.FixtureRequest, postgres_url: str
) -> AsyncIterator[AsyncEngine]:
    """What a relay has to do with PostgreSQL; the backends are called as the driver."""
    name = request.param
    told = {"server_settings": {"application_name": name}}
    engine = create_async_engine(
        make_url(postgres_url).set(drivername=f"postgresql+{name}"),
        connect_args=told if name == "asyncpg" else {"application_name": name},
    )
    yield engine
    await engine.dispose()


@pytest.mark.requirement("C7", "C9")
async def test_a_relay_that_hardly_polls_delivers_right_after_each_commit(
    relay_engine: AsyncEngine, sync_engine: Engine, outbox: Outbox, notify: Notify
) -> None:
    notify(sync_engine)
    async with relaying(relay_engine) as publisher:
        for count in range(1, 4):
            commit(outbox, sync_engine)
            await eventually(lambda: len(publisher.messages) == count)  # noqa: B023


@pytest.mark.requirement("C7")
async def test_a_listener_whose_connection_is_killed_listens_again_and_misses_nothing(
    relay_engine: AsyncEngine,
    sync_engine: Engine,
    outbox: Outbox,
    notify: Notify,
    caplog: pytest.LogCaptureFixture,
) -> None:
    name = relay_engine.dialect.driver.removesuffix("_async")
    async with relaying(relay_engine) as publisher:
        [before] = listeners(sync_engine, name)
        kill(sync_engine, before)  # the relay can do nothing before the next `await`
        commit(outbox, sync_engine)  # and nobody is notified of this one
        await eventually(lambda: len(publisher.messages) == 1)
        [after] = listeners(sync_engine, name)
        assert after != before
        notify(sync_engine)
        commit(outbox, sync_engine)
        await eventually(lambda: len(publisher.messages) == 2)
    await eventually(lambda: not listeners(sync_engine, name), "the server has ended its part")
    [warning] = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert "cannot listen for commits, only polls" in warning.getMessage()


async def test_a_relay_that_is_not_to_listen_polls_and_never_listens(
    relay_engine: AsyncEngine, sync_engine: Engine, outbox: Outbox, notify: Notify
) -> None:
    notify(sync_engine)
    name = relay_engine.dialect.driver.removesuffix("_async")
    often = timedelta(seconds=0.05)
    async with relaying(relay_engine, listen=None, poll_interval=often) as publisher:
        commit(outbox, sync_engine)
        await eventually(lambda: len(publisher.messages) == 1)
        assert listeners(sync_engine, name) == []
