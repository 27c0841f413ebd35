"""The server of the demo: an address, and signals that end it."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import uvicorn
from fastapi import FastAPI

HOST, PORT = "127.0.0.1", 8000
END_WITHIN = 2
"""Seconds for requests that are not answered yet when the demo ends."""


class Server(uvicorn.Server):
    """A server that leaves the signals to the demo, which ends other things first."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(app: FastAPI, listener: socket.socket) -> AsyncIterator[None]:
    """Serve an application for as long as the block lasts."""
    config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=END_WITHIN)
    server = Server(config)
    served = asyncio.create_task(server.serve([listener]))
    while not (server.started or served.done()):  # noqa: ASYNC110  uvicorn has no event for it
        await asyncio.sleep(0.01)
    if not server.started:
        raise SystemExit("make demo: the application does not start. Try it without the demo.")
    try:
        yield
    finally:
        server.should_exit = True
        await served


def stop_signals() -> asyncio.Event:
    """Return what Ctrl-C, SIGTERM and SIGHUP set. A second one changes nothing: it ends soon."""
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    return stopped


def listening_socket() -> socket.socket:
    """Take the usual port, or, where that is taken, another one."""
    for port in (PORT, 0):
        with suppress(OSError):
            return socket.create_server((HOST, port))
    raise SystemExit(f"make demo: there is no free port at {HOST}")
