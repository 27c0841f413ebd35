"""FastAPI: a bus per request, the middleware, the relay in the lifespan."""

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Protocol

from fastapi import FastAPI

from postroom.capture.bus import EventBus, OutboxMiddleware
from postroom.errors import error_text, traceable
from postroom.outbox import Outbox

__all__ = ["get_event_bus", "get_outbox_middleware", "outbox_middleware", "relay_lifespan"]

log = logging.getLogger(__name__)

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

    If the relay ends with an error, a CRITICAL line is logged, and the application goes on.

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
    task = asyncio.create_task(relay.run(), name="postroom relay")
    task.add_done_callback(_report_end)
    await asyncio.sleep(0)  # let it start: what has not started cannot be stopped
    try:
        yield
    finally:
        if not task.done():  # else it has been reported
            task.remove_done_callback(_report_end)
            await _stop(relay, task)


async def _stop(relay: Relay, task: asyncio.Task[None]) -> None:
    try:
        await relay.stop()
    except BaseException:
        task.cancel()
        raise
    finally:
        await asyncio.wait({task})
        _report_failure(task)


def _report_end(task: asyncio.Task[None]) -> None:
    if not _report_failure(task):
        log.critical(
            "postroom: the relay has ended, and the application goes on: nothing is delivered"
        )


def _report_failure(task: asyncio.Task[None]) -> bool:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        message = "postroom: the relay has failed, and delivers nothing: %s"
        log.critical(message, error_text(error), exc_info=traceable(error))
    return error is not None


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
