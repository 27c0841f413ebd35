"""FastAPI: a bus per request, the middleware, the relay in the lifespan."""

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Protocol

from fastapi import FastAPI

from postroom.capture.bus import EventBus, OutboxMiddleware
from postroom.errors import error_text, traceable
from postroom.outbox import Outbox

__all__ = ["get_event_bus", "get_outbox_middleware", "outbox_middleware", "relay_lifespan"]

log = logging.getLogger(__name__)

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
"""Seconds before a relay that has failed is started again; the pause doubles up to the longest."""
FAILED = "postroom: the relay has failed, and delivers nothing: %s. It is started again in %.0f s"
ENDED = "postroom: the relay has ended, and the application goes on: nothing is delivered"

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[Any]]
"""As FastAPI takes it: it gives None, or the state of the application's requests."""


class Relay(Protocol):
    """What a lifespan needs of a relay."""

    async def run(self) -> None:
        """Deliver until it is stopped."""

    async def stop(self) -> None:
        """Finish what is in flight; return when `run` has."""


class Closable(Protocol):
    """What a lifespan needs of a container."""

    def close(self) -> Any:
        """Let go of everything; at once, or when it is awaited."""


RelayMaker = Callable[[FastAPI], Relay | Awaitable[Relay]]


async def get_event_bus() -> EventBus:
    """Return the event bus of a request: `Depends(get_event_bus)`."""
    return EventBus()


async def get_outbox_middleware() -> OutboxMiddleware:
    """Return the middleware of a process with one outbox: `Depends(get_outbox_middleware)`.

    With several outboxes, use `outbox_middleware`.
    """
    return OutboxMiddleware()


def outbox_middleware(outbox: Outbox) -> Callable[[], Awaitable[OutboxMiddleware]]:
    """Return a dependency on the middleware of an outbox: `Depends(outbox_middleware(outbox))`."""
    middleware = outbox.middleware()

    async def get_middleware() -> OutboxMiddleware:
        return middleware

    return get_middleware


def relay_lifespan(
    relay: Relay | RelayMaker,
    *,
    container: Closable | None = None,
    lifespan: Lifespan | None = None,
) -> Lifespan:
    """Return a lifespan that runs a relay for as long as the application runs.

    If the relay ends with an error, a CRITICAL line is logged, and the application goes on. The
    relay is started again after 1 s, then 2 s, and so on up to a minute; its health is "stopped",
    with the error, until it runs again.

    - `relay`: a relay, or a function, sync or async, that takes the application and returns one
    - `container`: is closed after the relay has stopped; that of Dishka's `setup_dishka` by default
    - `lifespan`: a lifespan of the application; it starts before the relay, and ends after it
    """

    @asynccontextmanager
    async def live(app: FastAPI) -> AsyncIterator[Any]:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(_close, app, container)
            state = await stack.enter_async_context(lifespan(app)) if lifespan else None
            await stack.enter_async_context(_running(await _made(relay, app)))
            yield state

    return live


@asynccontextmanager
async def _running(relay: Relay) -> AsyncIterator[None]:
    runner = _Runner(relay)
    task = asyncio.create_task(runner.run(), name="postroom relay")
    await asyncio.sleep(0)  # let it start: what has not started cannot be stopped
    try:
        yield
    finally:
        try:
            await runner.stop()
        except BaseException:
            task.cancel()
            raise
        finally:
            await asyncio.wait({task})


class _Runner:
    """Runs a relay, again after each error, until it is stopped."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._runs = False
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            began, self._runs = time.monotonic(), True
            try:
                await self._relay.run()
            except Exception as error:
                if time.monotonic() - began > LONGEST_PAUSE:
                    pause = FIRST_PAUSE
                self._report(error, pause)
            else:
                if not self._stopping.is_set():
                    log.critical(ENDED)
                return
            finally:
                self._runs = False
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
            pause = min(LONGEST_PAUSE, 2 * pause)

    async def stop(self) -> None:
        self._stopping.set()
        if self._runs:
            await self._relay.stop()

    def _report(self, error: Exception, pause: float) -> None:
        reason, trace = error_text(error).rstrip("."), traceable(error)
        if self._stopping.is_set():
            log.critical("postroom: the relay has failed at its end: %s", reason, exc_info=trace)
        else:
            log.critical(FAILED, reason, pause, exc_info=trace)


async def _made(relay: Relay | RelayMaker, app: FastAPI) -> Relay:
    if not callable(relay):
        return relay
    made = relay(app)
    return await made if inspect.isawaitable(made) else made


async def _close(app: FastAPI, container: Closable | None) -> None:
    container = container or getattr(app.state, "dishka_container", None)
    closing = None if container is None else container.close()
    if inspect.isawaitable(closing):
        await closing
