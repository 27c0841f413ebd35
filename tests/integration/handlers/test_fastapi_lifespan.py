"""FastAPI: a relay that lives as long as the application, and ends before its container."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from dishka import AsyncContainer, Provider, Scope, make_async_container
from dishka.integrations.fastapi import setup_dishka
from fastapi import FastAPI
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import HealthStatus, MemoryPublisher, Outbox, OutboxRecord, OutboxRelay
from postroom.errors import SchemaError
from postroom.integrations import fastapi
from postroom.integrations.fastapi import relay_lifespan
from tests.support.waiting import PATIENCE, eventually

Steps = list[str]


class FakeRelay:
    """Runs until it is stopped, or fails."""

    def __init__(
        self,
        steps: Steps,
        *,
        at_once: Exception | None = None,
        at_the_end: Exception | None = None,
        at_stop: Exception | None = None,
    ) -> None:
        self.steps = steps
        self.errors = at_once, at_the_end, at_stop
        self.running = asyncio.Event()
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()

    def _fail(self, moment: int) -> None:
        error = self.errors[moment]
        if error is not None:
            raise error

    async def run(self) -> None:
        self._fail(0)
        self.steps.append("relay runs")
        self.running.set()
        try:
            await self._stopping.wait()
            self._fail(1)
        finally:
            self.steps.append("relay ends")
            self._ended.set()

    async def stop(self) -> None:
        self.steps.append("stop")
        self._fail(2)
        self._stopping.set()
        await self._ended.wait()

    def end(self) -> None:
        self._stopping.set()


class FailingRelay(FakeRelay):
    """Fails so many times when it starts."""

    def __init__(self, steps: Steps, *, failures: int) -> None:
        super().__init__(steps)
        self.failures = failures

    async def run(self) -> None:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("not yet")
        await super().run()


class Pool:
    """Something of the application that closes with its container."""


def pool_container(steps: Steps) -> AsyncContainer:
    async def pool() -> AsyncIterator[Pool]:
        yield Pool()
        steps.append("container closes")

    provider = Provider(scope=Scope.APP)
    provider.provide(pool)
    return make_async_container(provider)


@pytest.fixture
def steps() -> Steps:
    return []


@pytest.fixture
async def container(steps: Steps) -> AsyncContainer:
    container = pool_container(steps)
    await container.get(Pool)
    return container


@asynccontextmanager
async def living(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    """Start and shut down an application as a server does."""
    to_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    from_app: asyncio.Queue[Any] = asyncio.Queue()
    state: dict[str, Any] = {}
    scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": state}
    server = asyncio.create_task(app(scope, to_app.get, from_app.put))
    try:
        await to_app.put({"type": "lifespan.startup"})
        started = await asyncio.wait_for(from_app.get(), PATIENCE)
        assert started["type"] == "lifespan.startup.complete"
        yield state
        await to_app.put({"type": "lifespan.shutdown"})
        ended = await asyncio.wait_for(from_app.get(), PATIENCE)
        assert ended["type"] == "lifespan.shutdown.complete"
    finally:
        server.cancel()
        await asyncio.wait({server})


@pytest.mark.requirement("A16")
async def test_the_relay_starts_with_the_application_and_ends_before_its_container_closes(
    steps: Steps, container: AsyncContainer
) -> None:
    app = FastAPI(lifespan=relay_lifespan(FakeRelay(steps)))
    setup_dishka(container, app)
    async with living(app):
        assert steps == ["relay runs"]
    assert steps == ["relay runs", "stop", "relay ends", "container closes"]


@pytest.mark.requirement("A16")
async def test_a_container_that_is_given_is_the_one_that_closes(
    steps: Steps, container: AsyncContainer
) -> None:
    app = FastAPI(lifespan=relay_lifespan(FakeRelay(steps), container=container))
    async with living(app):
        pass
    assert steps[-2:] == ["relay ends", "container closes"]


async def test_a_container_that_is_not_async_closes_too(steps: Steps) -> None:
    class Container:
        def close(self) -> None:
            steps.append("container closes")

    app = FastAPI(lifespan=relay_lifespan(FakeRelay(steps), container=Container()))
    async with living(app):
        pass
    assert steps[-2:] == ["relay ends", "container closes"]


async def test_an_application_needs_no_container(steps: Steps) -> None:
    async with living(FastAPI(lifespan=relay_lifespan(FakeRelay(steps)))):
        pass
    assert steps == ["relay runs", "stop", "relay ends"]


def at_once(make: Callable[[FastAPI], FakeRelay]) -> Callable[[FastAPI], Any]:
    return make


def awaited(make: Callable[[FastAPI], FakeRelay]) -> Callable[[FastAPI], Any]:
    async def made(app: FastAPI) -> FakeRelay:
        return make(app)

    return made


@pytest.mark.requirement("A16")
@pytest.mark.parametrize("way", [at_once, awaited])
async def test_a_relay_can_be_made_with_the_container_of_the_application(
    steps: Steps, container: AsyncContainer, way: Callable[[Any], Any]
) -> None:
    seen: list[AsyncContainer] = []

    def make(app: FastAPI) -> FakeRelay:
        seen.append(app.state.dishka_container)
        return FakeRelay(steps)

    app = FastAPI(lifespan=relay_lifespan(way(make)))
    setup_dishka(container, app)
    async with living(app):
        assert steps == ["relay runs"]
    assert seen == [container]


async def test_the_applications_own_lifespan_is_around_the_relay_and_keeps_its_state(
    steps: Steps, container: AsyncContainer
) -> None:
    @asynccontextmanager
    async def own(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        steps.append("own starts")
        yield {"greeting": "hello"}
        steps.append("own ends")

    app = FastAPI(lifespan=relay_lifespan(FakeRelay(steps), container=container, lifespan=own))
    async with living(app) as state:
        assert state == {"greeting": "hello"}
    assert steps == [
        "own starts",
        "relay runs",
        "stop",
        "relay ends",
        "own ends",
        "container closes",
    ]


class Alarm(logging.Handler):
    """Goes off at a critical line."""

    def __init__(self) -> None:
        super().__init__(logging.CRITICAL)
        self.raised = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.raised.set()


@pytest.fixture
def alarm() -> Iterator[Alarm]:
    alarm, logger = Alarm(), logging.getLogger("postroom")
    logger.addHandler(alarm)
    yield alarm
    logger.removeHandler(alarm)


def critical(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line.getMessage() for line in caplog.records if line.levelno == logging.CRITICAL]


async def test_a_relay_that_fails_at_once_is_told_at_once_and_once(
    steps: Steps, container: AsyncContainer, caplog: pytest.LogCaptureFixture
) -> None:
    relay = FakeRelay(steps, at_once=SchemaError(["no table `outbox`"]))
    app = FastAPI(lifespan=relay_lifespan(relay, container=container))
    async with living(app):
        [line] = critical(caplog)
        assert "no table `outbox`" in line
    assert len(critical(caplog)) == 1
    assert steps == ["container closes"]


@pytest.mark.parametrize("by_itself", [True, False], ids=["by itself", "while it stops"])
async def test_a_relay_that_fails_later_is_told_and_does_not_hinder_the_shutdown(
    steps: Steps,
    container: AsyncContainer,
    caplog: pytest.LogCaptureFixture,
    alarm: Alarm,
    by_itself: bool,
) -> None:
    relay = FakeRelay(steps, at_the_end=RuntimeError("out of luck"))
    app = FastAPI(lifespan=relay_lifespan(relay, container=container))
    async with living(app):
        if by_itself:
            relay.end()
            await asyncio.wait_for(alarm.raised.wait(), PATIENCE)
    assert ["out of luck" in line for line in critical(caplog)] == [True]
    assert steps[-2:] == ["relay ends", "container closes"]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start a relay again after 1 ms, then 2 ms."""
    monkeypatch.setattr(fastapi, "FIRST_PAUSE", 0.001)


@pytest.mark.usefixtures("quick")
async def test_a_relay_that_fails_is_started_again_until_it_runs(
    steps: Steps, caplog: pytest.LogCaptureFixture
) -> None:
    relay = FailingRelay(steps, failures=3)
    async with living(FastAPI(lifespan=relay_lifespan(relay))):
        await asyncio.wait_for(relay.running.wait(), PATIENCE)
    assert steps == ["relay runs", "stop", "relay ends"]
    assert len(critical(caplog)) == 3
    assert all("It is started again in" in line for line in critical(caplog))


@pytest.mark.usefixtures("quick")
async def test_a_relay_that_is_stopped_between_two_starts_is_not_started_again(
    steps: Steps, alarm: Alarm
) -> None:
    relay = FailingRelay(steps, failures=1_000_000)
    async with living(FastAPI(lifespan=relay_lifespan(relay))):
        await asyncio.wait_for(alarm.raised.wait(), PATIENCE)
    left = relay.failures
    await asyncio.sleep(0)
    assert relay.failures == left
    assert steps == []


async def test_the_health_of_a_relay_that_is_started_again_says_why_it_does_not_run(
    engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch, alarm: Alarm
) -> None:
    monkeypatch.setattr(fastapi, "FIRST_PAUSE", 0.05)
    record = type("LateRecord", (OutboxRecord,), {})
    outbox = Outbox(MetaData(), table="late", record=record)
    relay = OutboxRelay(outbox, engine, MemoryPublisher())
    async with living(FastAPI(lifespan=relay_lifespan(relay))):
        await asyncio.wait_for(alarm.raised.wait(), PATIENCE)
        assert relay.health.status is HealthStatus.STOPPED
        assert "no table `late`" in str(relay.health.reason)
        async with engine.begin() as connection:
            await connection.run_sync(outbox.create_tables)
        await eventually(lambda: relay.health.status is HealthStatus.OK)
    async with engine.begin() as connection:
        await connection.run_sync(outbox.metadata.drop_all)


async def test_a_relay_that_ends_by_itself_is_told(
    steps: Steps, caplog: pytest.LogCaptureFixture, alarm: Alarm
) -> None:
    relay = FakeRelay(steps)
    async with living(FastAPI(lifespan=relay_lifespan(relay))):
        relay.end()
        await asyncio.wait_for(alarm.raised.wait(), PATIENCE)
    assert "nothing is delivered" in critical(caplog)[0]


async def test_a_relay_that_cannot_be_stopped_is_cancelled_before_the_container_closes(
    steps: Steps, container: AsyncContainer
) -> None:
    relay = FakeRelay(steps, at_stop=RuntimeError("stuck"))
    live = relay_lifespan(relay, container=container)(FastAPI())
    await live.__aenter__()
    with pytest.raises(RuntimeError, match="stuck"):
        await live.__aexit__(None, None, None)
    assert steps == ["relay runs", "stop", "relay ends", "container closes"]


async def test_a_lifespan_that_is_cancelled_leaves_no_relay_behind(
    steps: Steps, container: AsyncContainer
) -> None:
    relay = FakeRelay(steps)
    app = FastAPI(lifespan=relay_lifespan(relay, container=container))

    async def live() -> None:
        async with app.router.lifespan_context(app):
            await asyncio.Event().wait()

    task = asyncio.create_task(live())
    await asyncio.wait_for(relay.running.wait(), PATIENCE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["relay runs", "stop", "relay ends", "container closes"]
