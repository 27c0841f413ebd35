"""An ASGI application under uvicorn, in the event loop of the test that asks it."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp

from scripts.servers import HOST
from tests.support.waiting import eventually


class Server(uvicorn.Server):
    """A server that leaves the signals of this process alone."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving_app(app: ASGIApp) -> AsyncIterator[str]:
    """Serve an application, its lifespan too, on a free port; give its address.

    Answers that are still being sent at the end (streams of events) are broken off.
    """
    settings = uvicorn.Config(app, host=HOST, port=0, log_config=None, lifespan="on")
    server = Server(settings)
    running = asyncio.create_task(server.serve())
    try:
        await eventually(lambda: server.started or running.done())
        assert server.started, "the application did not start: see the log"
        yield f"http://{HOST}:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        for task in server.server_state.tasks:
            task.cancel()
        server.should_exit = True
        await running
