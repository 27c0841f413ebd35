"""Starts and ends the demo: `python -m demo [--seconds N]`, or `make demo`."""

import argparse
import asyncio
import os
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

import httpx
from alembic import command
from alembic.config import Config
from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from demo.broker import Broker, socket_path
from demo.client import Client
from demo.consumer import Consumer
from demo.controls import send_regularly
from demo.ledger import Ledger
from demo.narrator import Narrator
from demo.parts import Parts
from demo.serving import listening_socket, serving, stop_signals
from demo.story import Names, Story
from demo.watcher import Watcher
from demo.web import FILES, page_router
from demo.workers import Workers
from messaging.main import create_app
from messaging.models import outbox
from messaging.settings import Settings
from postroom.console import console

NOT_KEPT = httpx.Limits(max_keepalive_connections=0)
"""The server closes a connection that is idle for 5 s, perhaps just when it is used again."""
WELCOME = """\
Open {address} in a browser: send messages, stop the broker, kill the worker.
The messaging application runs on SQLite, with a worker in a process of its own. Ctrl-C ends it.
"""


def main() -> None:
    options = argparse.ArgumentParser(prog="make demo")
    options.add_argument("--seconds", type=float, help="when to end; without it, Ctrl-C does")
    seconds = options.parse_args().seconds
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # until the server takes signals
    with (
        tempfile.TemporaryDirectory(prefix="postroom-demo-") as folder,
        suppress(KeyboardInterrupt),
    ):
        migrate(Path(folder))
        asyncio.run(run(Path(folder), seconds))
    print("The demo has stopped.")


def migrate(folder: Path) -> None:
    """Make the tables as an installation does."""
    os.environ["DATABASE_URL"] = database_url(folder)
    command.upgrade(Config(Path(__file__).parents[1] / "examples/messaging/alembic.ini"), "head")


async def run(folder: Path, seconds: float | None) -> None:
    """Serve the application and the page until it is time to end."""
    stopped = stop_signals()
    listener = listening_socket()
    address = "http://{}:{}".format(*listener.getsockname())
    engine = create_async_engine(database_url(folder))
    consumer = Consumer(folder / "consumer.db", Ledger())
    async with httpx.AsyncClient(base_url=address, limits=NOT_KEPT) as http:
        demo = make_parts(folder, engine, consumer, http)
        try:
            await consumer.open()
            async with serving(make_app(folder, engine, demo), listener):
                print(WELCOME.format(address=address), flush=True)
                await play(demo, stopped, seconds)
        finally:
            await demo.broker.close()
            await consumer.close()
            await engine.dispose()


async def play(demo: Parts, stopped: asyncio.Event, seconds: float | None) -> None:
    """Run the broker, the worker and the traffic."""
    await demo.broker.start()
    await demo.client.prepare()
    async with asyncio.TaskGroup() as group:
        narrating = group.create_task(Narrator(demo).run(stopped))
        tasks = [group.create_task(each) for each in (demo.workers.run(), send_regularly(demo))]
        await asyncio.wait([narrating], timeout=seconds)
        stopped.set()
        for task in tasks:
            task.cancel()


def make_parts(
    folder: Path, engine: AsyncEngine, consumer: Consumer, http: httpx.AsyncClient
) -> Parts:
    """Wire the parts of the demo."""
    story, names, socket = Story(), Names(), socket_path(folder)
    broker = Broker(socket, consumer, names, story)
    return Parts(
        story=story,
        names=names,
        ledger=consumer.ledger,
        broker=broker,
        workers=Workers(story, [database_url(folder), str(socket)]),
        watcher=Watcher(engine, broker, consumer.ledger),
        client=Client(http, engine, names),
    )


def make_app(folder: Path, engine: AsyncEngine, demo: Parts) -> FastAPI:
    """Make the application as it is, and add the page and the console to it."""
    # With a broker's URL it has no worker in it. It never connects to that URL: only a worker does.
    settings = Settings(database_url=database_url(folder), rabbitmq_url="amqp://127.0.0.1")
    app = create_app(settings)
    app.mount("/demo/files", StaticFiles(directory=FILES))
    app.include_router(page_router(demo))
    app.mount("/console", console(outbox, engine))
    return app


def database_url(folder: Path) -> str:
    return f"sqlite+aiosqlite:///{folder / 'messaging.db'}"


if __name__ == "__main__":
    main()
