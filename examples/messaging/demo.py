"""The messaging application with sample traffic, on SQLite and a broker in memory: `make demo`.

Each line is printed where it happens: requests by the client, records at their commit, deliveries
by the audit consumer, troubles by the log of postroom. Read `tell` for the story.
"""

import argparse
import asyncio
import logging
import os
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import uvicorn
from alembic import command
from alembic.config import Config
from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import AsyncEngine

from examples.messaging.broker import in_memory, topology
from examples.messaging.database import make_engine
from examples.messaging.main import create_app
from examples.messaging.models import outbox
from examples.messaging.settings import Settings
from postroom import ClaimedRecord, MemoryPublisher, OutboxRecord, Outcome, Refused

HOST, PORT = "127.0.0.1", 8000
NOT_KEPT = httpx.Limits(max_keepalive_connections=0)
"""Uvicorn waits for its connections to end, and one made while it stops would be kept open."""
PAUSE = 3.0
"""Seconds between two messages, when the story has been told."""
FAULT = """
CREATE TRIGGER full BEFORE INSERT ON outbox_events
BEGIN SELECT RAISE(ABORT, 'the disk is full'); END
"""


def main() -> None:
    options = argparse.ArgumentParser(prog="make demo")
    options.add_argument("--seconds", type=float, help="when to end; without it, Ctrl-C does")
    seconds = options.parse_args().seconds
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # uvicorn ends by it, and then raises it again
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'messaging.db'}"
        broker = Broker()
        server = make_server(url, broker)
        with suppress(KeyboardInterrupt):
            migrate(url)
            asyncio.run(run(server, url, broker, seconds))
    if server.force_exit:  # Ctrl-C twice: nothing was waited for
        os._exit(130)
    print("\nThe application has stopped. What was in flight was delivered first.")


def migrate(url: str) -> None:
    """Make the tables as an installation does."""
    os.environ["DATABASE_URL"] = url
    command.upgrade(Config(Path(__file__).with_name("alembic.ini")), "head")


def make_server(url: str, broker: "Broker") -> uvicorn.Server:
    """Have uvicorn serve the application in this process."""
    settings = Settings(database_url=url, rabbitmq_url=None, outbox_poll_interval=1)
    app = create_app(settings, in_memory(topology(), broker))
    return uvicorn.Server(uvicorn.Config(app, log_level="critical"))


async def run(server: uvicorn.Server, url: str, broker: "Broker", seconds: float | None) -> None:
    """Serve the application, and have somebody use it, until it is time to end."""
    show_records()
    show_log()
    engine = make_engine(url)
    try:
        async with (
            serving(server) as (address, served),
            httpx.AsyncClient(base_url=address, limits=NOT_KEPT) as http,
        ):
            print("The messaging application, on SQLite and a broker in memory.")
            print(f"Its page: {address}/docs (there, under Authorize, any two UUIDs will do)")
            story = asyncio.create_task(tell(Client(http), broker, engine))
            await until_one_ends(served, story, seconds)
    finally:
        await engine.dispose()


async def until_one_ends(
    served: asyncio.Task[None], story: asyncio.Task[None], seconds: float | None
) -> None:
    """Wait for Ctrl-C, which ends the server, or for the time to be up, or for a failure."""
    try:
        await asyncio.wait({served, story}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        story.cancel()
        with suppress(asyncio.CancelledError, httpx.TransportError):  # the server may be gone
            await story


@asynccontextmanager
async def serving(server: uvicorn.Server) -> AsyncIterator[tuple[str, asyncio.Task[None]]]:
    """Have it serve; give its address, and its end."""
    listener = listening_socket()
    served = asyncio.create_task(server.serve([listener]))
    while not (server.started or served.done()):  # noqa: ASYNC110  uvicorn has no event for it
        await asyncio.sleep(0.01)
    try:
        yield f"http://{HOST}:{listener.getsockname()[1]}", served
    finally:
        server.should_exit = True
        await served


async def tell(client: "Client", broker: "Broker", engine: AsyncEngine) -> None:
    """The story, step by step."""
    print("\n1. A message is drafted, and queued. A request, its record, its delivery.")
    channel = await client.post("/channels", name="Reminders", kind="sms")
    group = await client.post("/contact-groups", name="Everybody", contacts=["+43 1", "+43 2"])
    new = {"channel_id": channel["id"], "contact_group_ids": [group["id"]], "body": "Hello!"}
    first = await client.post("/group-messages", **new)
    await client.patch(first, status="queued")
    await everything_delivered(engine)

    print("\n2. A record cannot be written, so its message is not saved either: a rollback.")
    before = await counts(engine)
    async with fault(engine):
        await client.post("/group-messages", **new)
    tell_of("database", f"{before} before, {await counts(engine)} after")

    print("\n3. The broker is away. Requests are answered as ever, and their records wait.")
    broker.outage = "the broker is away"
    second = await client.post("/group-messages", **new)
    await client.patch(second, status="queued")
    await asyncio.sleep(1.5)
    tell_of("broker", "is back")
    broker.outage = None
    await everything_delivered(engine)

    print("\n4. The broker refuses a record. What follows it waits for the retry, others do not.")
    broker.refuses = first["id"]
    await client.patch(first, status="processing")
    await client.patch(first, status="completed")
    await client.patch(second, status="processing")
    await everything_delivered(engine)

    print(
        "\n5. All is delivered, in order. From now on a message every few seconds; Ctrl-C ends it."
    )
    while True:
        await client.post("/group-messages", **new)
        await asyncio.sleep(PAUSE)


class Broker(MemoryPublisher):
    """A broker in memory, with a bad moment."""

    refuses: str | None = None
    """Which message it does not want to hear of, the next time."""

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
        return [await self._take(record) for record in records]

    async def _take(self, record: ClaimedRecord) -> Outcome:
        if record.aggregate_id == self.refuses:
            self.refuses = None
            return Refused("the queue is full")
        [outcome] = await super().publish([record])
        return outcome


class Client:
    """Somebody who uses the application, by HTTP."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._user = {"X-User-Id": str(uuid4()), "X-Account-Id": str(uuid4())}

    async def post(self, path: str, **body: Any) -> dict[str, Any]:
        return await self._send("POST", path, body)

    async def patch(self, message: dict[str, Any], **body: Any) -> dict[str, Any]:
        return await self._send("PATCH", f"/group-messages/{message['id']}", body)

    async def _send(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        tell_of("request", f"{method} {path}")
        response = await self._http.request(method, path, json=body, headers=self._user)
        tell_of("answer", f"{response.status_code} {response.reason_phrase}")
        return response.json() if response.is_success else {}


@asynccontextmanager
async def fault(engine: AsyncEngine) -> AsyncIterator[None]:
    """Have the database refuse every record, for a while."""
    async with engine.begin() as connection:
        await connection.execute(text(FAULT))
    yield
    async with engine.begin() as connection:
        await connection.execute(text("DROP TRIGGER full"))


async def everything_delivered(engine: AsyncEngine) -> None:
    async with asyncio.timeout(60):
        while await count(engine, "outbox_events WHERE status = 'pending'"):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def counts(engine: AsyncEngine) -> str:
    messages, records = [await count(engine, of) for of in ("group_messages", "outbox_events")]
    return f"{messages} messages and {records} records"


async def count(engine: AsyncEngine, what: str) -> int:
    async with engine.connect() as connection:
        return int(await connection.scalar(text(f"SELECT count(*) FROM {what}")) or 0)


def tell_of(who: str, what: str) -> None:
    print(f"{who + ':':<10}{what}", flush=True)


def show_records() -> None:
    """Tell of each record when its transaction is committed, before anybody can deliver it."""
    written: list[OutboxRecord] = []

    @event.listens_for(outbox.record, "after_insert")
    def note(mapper: object, connection: object, record: OutboxRecord) -> None:
        written.append(record)

    def tell_all(_: object) -> None:
        for record in written:
            tell_of("record", f"{record.event_type:<26} {record.aggregate_id}  {record.status}")
        written.clear()

    outbox.on_commit(tell_all)


def show_log() -> None:
    """Tell what postroom warns of: refusals, outages and their end."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("relay:    %(message)s"))
    logging.getLogger("postroom").addHandler(handler)


def listening_socket() -> socket.socket:
    """Take the usual port, or, where that is taken, another one."""
    for port in (PORT, 0):
        with suppress(OSError):
            return socket.create_server((HOST, port))
    raise SystemExit(f"make demo: there is no free port at {HOST}")


if __name__ == "__main__":
    main()
