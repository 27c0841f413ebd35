"""Health over HTTP, for an orchestrator: `/live`, the process responds; `/ready`, it delivers."""

import asyncio
import json
import logging
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs, urlsplit

from postroom.cli.errors import CommandError
from postroom.relay.health import Health, HealthStatus

logger = logging.getLogger("postroom.worker")

ANSWER_WITHIN = 5.0
"""Seconds for the event loop to answer in, before it counts as stuck."""

Ask = Callable[[], Health]


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent for a request."""

    status: HTTPStatus
    body: bytes
    content_type: str = "application/json"

    @classmethod
    def json(cls, status: HTTPStatus, document: Mapping[str, Any]) -> "Answer":
        """Answer with a JSON document."""
        return cls(status, json.dumps(document).encode() + b"\n")


AskInLoop = Callable[[], Health | None]
"""Returns the relay's health; None if its event loop does not respond."""
Route = Callable[[AskInLoop, bool], Answer]
"""Answers a request. The second argument says whether the client may see details."""
STUCK = Answer.json(HTTPStatus.SERVICE_UNAVAILABLE, {"status": "stuck"})


def live(ask: AskInLoop, _details: bool) -> Answer:
    """Answer whether the event loop responds."""
    return STUCK if ask() is None else Answer.json(HTTPStatus.OK, {"status": "live"})


def ready(ask: AskInLoop, details: bool) -> Answer:
    """Answer whether records are delivered."""
    health = ask()
    if health is None:
        return STUCK
    is_ready = health.status is HealthStatus.OK
    status = HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE
    return Answer.json(status, _document(health, details=details))


ROUTES: Mapping[str, Route] = {"/live": live, "/ready": ready}


@asynccontextmanager
async def health_server(
    host: str, port: int, ask: Ask, routes: Mapping[str, Route]
) -> AsyncIterator[None]:
    """Answer on the port for as long as the block lasts."""
    loop = asyncio.get_running_loop()
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        server = _server(family)(address[:2], loop, ask, routes)
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

    def __init__(
        self,
        address: Any,
        loop: asyncio.AbstractEventLoop,
        ask: Ask,
        routes: Mapping[str, Route],
    ) -> None:
        self.loop, self.ask, self.routes = loop, ask, routes
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
        url = urlsplit(self.path)
        route = self.server.routes.get(url.path)
        if route is None:
            known = " or ".join(self.server.routes)
            self._send(Answer.json(HTTPStatus.NOT_FOUND, {"error": f"ask for {known}"}))
            return
        asks_details = "verbose" in parse_qs(url.query, keep_blank_values=True)
        details = asks_details and is_loopback(self.client_address[0])
        self._send(route(self.server.health, details))

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Keep probes out of the log."""

    def version_string(self) -> str:
        """Name the server without the version of Python."""
        return "postroom"

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)


def is_loopback(address: str) -> bool:
    """Tell whether a client is on this machine."""
    found = ip_address(address.partition("%")[0])
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_loopback


def _document(health: Health, *, details: bool) -> dict[str, Any]:
    """Describe a health: reasons and routes name users and hosts, so they are details."""
    document: dict[str, Any] = {"status": health.status}
    if health.reason is not None:
        document["seconds"] = round(health.seconds or 0, 1)
        if details:
            document["reason"] = health.reason
    if details and health.waiting_routes:
        document["waiting_routes"] = [asdict(each) for each in health.waiting_routes]
    return document
