"""The pages of the console on a large outbox: how long the server takes, and who waits for it.

The console is called in this process, as an ASGI application: from the request to the last byte of
the page, without a network and an HTTP server.
"""

import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from benchmarks.measure import Side
from benchmarks.operated import RECORDS, outbox
from postroom.console import console
from postroom.console.samples import Samples
from postroom.inspection import Inspector

CONSOLE = "console"
"""The application name of the console's connections, by which PostgreSQL knows them."""
SAME_ORIGIN = {"sec-fetch-site": "same-origin"}


class HandSetClock:
    """A clock that stands still until somebody sets it forward: so samples are new, or not."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True)
class Pages:
    """A console, and a client of it."""

    client: httpx.AsyncClient
    engine: AsyncEngine
    clock: HandSetClock
    errors: Counter[str] = field(default_factory=Counter)
    """How often an address was answered with an error."""
    sessions: dict[int, float] = field(default_factory=dict)
    """The CPU time of each process of PostgreSQL that has served the console."""

    def all(self, known: Mapping[str, str]) -> dict[str, Side]:
        """Return every page by its name."""
        paths = {
            "overview, sample kept": "/",
            "records: newest": "/records",
            "records: oldest pending": "/records?state=pending&order=oldest",
            "records: failed with an error": "/records?state=failed&error=declined: card ffff",
            "records: type pattern": "/records?type=Order7*",
            "records: of a key": "/records?key=order/bad-3",
            "records: an error that none has": "/records?error=no such error",
            "record: failed": f"/records/{known['failed']}",
            "record: parked": f"/records/{known['parked']}",
            "record: published": f"/records/{known['published']}",
            "key: blocked": "/key?type=order&id=bad-3",
            "key: hot, 15,000 records": "/key?type=order&id=hot",
            "blocked keys": "/keys",
            "blocked keys: page 100": "/keys?after=4950",
            "failures": "/failures",
            "failures: a group": f"/failures/{known['group']}",
            "workers": "/workers",
            "events": "/events",
            "event": f"/event?type={known['type']}",
            "audit": "/audit",
        }
        return {
            "overview, new sample": self._overview,
            **{name: partial(self.get, path) for name, path in paths.items()},
            "doctor, all checks anew": partial(self.get, "/doctor?again"),
            "preview: retry all failed": partial(self._preview, "retry", state="failed"),
            "preview: discard pending of a type": partial(
                self._preview, "discard", state="pending", type="Order7"
            ),
        }

    def cpu(self) -> float:
        """The milliseconds of CPU time of this process and of the console's database sessions.

        On a busy machine it says more than the time on the clock. A database on another machine
        counts nothing.
        """
        for pid in self.sessions:
            usage = Path(f"/proc/{pid}/schedstat")  # in nanoseconds
            if usage.exists():  # it may have ended
                self.sessions[pid] = int(usage.read_text().split()[0]) / 1e6
        return 1000 * time.process_time() + sum(self.sessions.values())

    async def get(self, path: str) -> str:
        """Read a page."""
        return self._checked(await self.client.get(path))

    async def checks_end(self) -> None:
        """Wait until the doctor's checks have ended: they go on behind their page."""
        while "data-refresh" in await self.get("/doctor"):  # which waits for them a little
            pass

    async def _overview(self) -> None:
        self.clock.now += 3600
        await self.get("/")

    async def _preview(self, verb: str, **fields: str) -> None:
        form = {"scope": "matching", **fields}
        path = f"/actions/{verb}/preview"
        self._checked(await self.client.post(path, data=form, headers=SAME_ORIGIN))

    def _checked(self, response: httpx.Response) -> str:
        if response.status_code != 200:
            self.errors[f"{response.status_code} {response.request.url.raw_path.decode()}"] += 1
        return response.text

    async def plan(self) -> None:
        """Read all pages ten times on empty tables: PostgreSQL keeps a plan after five.

        Records and groups that are not there have no page yet, but statements.
        """
        known = dict.fromkeys(("failed", "parked", "published"), "1") | {"group": "0", "type": "-"}
        for page in self.all(known).values():
            for _ in range(10):
                await page()
        await self.checks_end()
        self.errors.clear()


@asynccontextmanager
async def pages_of(url: str) -> AsyncIterator[Pages]:
    """Make a console with connections of its own, and a client of it."""
    named = {"server_settings": {"application_name": CONSOLE}}
    engine = create_async_engine(url, connect_args=named)
    app, clock = console(outbox, engine), HandSetClock()
    state = app.state.console
    app.state.console = replace(state, samples=Samples(state.inspector, clock))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", follow_redirects=True
    ) as client:
        pages = Pages(client, engine, clock)
        note = partial(_note, pages.sessions)
        event.listen(engine.sync_engine, "connect", note)
        yield pages
    await engine.dispose()


def _note(sessions: dict[int, float], connection: Any, _: object) -> None:
    """Note the process that serves a new connection."""
    sessions[connection.driver_connection.get_server_pid()] = 0.0


async def known_records(engine: AsyncEngine) -> dict[str, str]:
    """Find a failed, a parked and a published record, a group of failures and an event type."""
    inspector = Inspector(outbox, engine)
    group = (await inspector.failures()).groups[0]
    async with engine.connect() as connection:
        found = await connection.execute(
            text(f"""SELECT (SELECT max(position) FROM {RECORDS} WHERE status = 'pending'
                    AND aggregate_id = 'bad-3') AS parked,
                (SELECT position FROM {RECORDS} WHERE status = 'published' LIMIT 1) AS published""")
        )
        [row] = found
    return {
        "failed": str(group.example),
        "parked": str(row.parked),
        "published": str(row.published),
        "group": group.id,
        "type": group.event_type,
    }
