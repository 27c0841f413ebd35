"""Health over HTTP, for an orchestrator: `/live`, the process responds; `/ready`, it delivers."""

import asyncio
import json
import logging
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from postroom.cli.errors import CommandError
from postroom.relay.health import Health, HealthStatus

logger = logging.getLogger("postroom.worker")

ANSWER_WITHIN = 5.0
"""Seconds for the event loop to answer in, before it counts as stuck."""

Ask = Callable[[], Health]


@asynccontextmanager
async def health_server(host: str, port: int | None, ask: Ask) -> AsyncIterator[None]:
    """Answer on the port for as long as the block lasts; without a port, do nothing."""
    if port is None:
        yield
        return
    loop = asyncio.get_running_loop()
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        server = _server(family)(address[:2], loop, ask)
    except OSError as error:
        raise CommandError(f"cannot listen on {host}:{port} for --health-port: {error}.") from error
    thread = threading.Thread(target=server.serve_forever, name="postroom health", daemon=True)
    thread.start()
    try:
        yield
    finally:
        await asyncio.to_thread(server.shutdown)
        server.server_close()


def _server(family: socket.AddressFamily) -> type["_Server"]:
    return type("_Server", (_Server,), {"address_family": family})


class _Server(ThreadingHTTPServer):
    """Answers from threads of its own, so that it can report a stuck event loop, too."""

    daemon_threads = True

    def __init__(self, address: Any, loop: asyncio.AbstractEventLoop, ask: Ask) -> None:
        self.loop = loop
        self.ask = ask
        super().__init__(address, _Handler)

    def health(self) -> Health | None:
        """Ask in the event loop; None if it does not answer."""

        async def in_loop() -> Health:
            return self.ask()

        asking = in_loop()
        try:
            future = asyncio.run_coroutine_threadsafe(asking, self.loop)
        except RuntimeError:  # the loop has ended
            asking.close()
            return None
        try:
            return future.result(ANSWER_WITHIN)
        except TimeoutError:
            future.cancel()
            return None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log an error, unless it is a client that does not wait for the answer."""
        if not isinstance(sys.exc_info()[1], OSError):
            logger.exception("postroom: a question about health failed")


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10

    def do_GET(self) -> None:
        """Answer a question."""
        path = self.path.partition("?")[0]
        if path not in ("/live", "/ready"):
            self._answer(HTTPStatus.NOT_FOUND, {"error": "ask for /live or /ready"})
            return
        health = self.server.health()
        if health is None:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, {"status": "stuck"})
        elif path == "/live":
            self._answer(HTTPStatus.OK, {"status": "live"})
        else:
            ready = health.status is HealthStatus.OK
            status = HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE
            self._answer(status, _document(health))

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Keep probes out of the log."""

    def _answer(self, status: HTTPStatus, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _document(health: Health) -> dict[str, Any]:
    document: dict[str, Any] = {"status": health.status}
    if health.reason is not None:
        document |= {"reason": health.reason, "seconds": round(health.seconds or 0, 1)}
    if health.waiting_routes:
        document["waiting_routes"] = [asdict(each) for each in health.waiting_routes]
    return document
