"""The console as a Starlette application: its routes, access and state."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from postroom.console.access import Access, ApplicationAccess, Authorize, LocalAccess, NameUser
from postroom.console.checkup import Checkup
from postroom.console.gate import Gate
from postroom.console.jobs import Jobs
from postroom.console.pages import (
    actions,
    audit,
    doctor,
    events,
    failures,
    keys,
    login,
    overview,
    records,
    workers,
)
from postroom.console.pages.errors import explain
from postroom.console.samples import Samples
from postroom.console.state import ConsoleState
from postroom.console.tokens import TokenAccess
from postroom.database.naming import place_of
from postroom.doctor import Subject
from postroom.errors import ConfigurationError, error_text
from postroom.inspection import Inspector
from postroom.outbox import Outbox
from postroom.publishers.base import Publisher
from postroom.relay.relay import OutboxRelay

logger = logging.getLogger("postroom.console")

SAMPLE_EVERY: Final = 10.0
"""Seconds between samples while nobody looks, so that the charts have a past."""
ROUTES: Final[list[BaseRoute]] = [
    Route("/", overview.overview),
    Route("/go", overview.go),
    Route("/records", records.records),
    Route("/records/{name}", records.record),
    Route("/keys", keys.blocked_keys),
    Route("/key", keys.key),
    Route("/failures", failures.failures),
    Route("/failures/{group}", failures.group),
    Route("/workers", workers.workers),
    Route("/events", events.events),
    Route("/event", events.event),
    Route("/doctor", doctor.doctor),
    Route("/audit", audit.audit),
    Route("/jobs/{job}", actions.job),
    Route("/login", login.login_page),
    Route("/login", login.log_in, methods=["POST"]),
    Route("/logout", login.log_out, methods=["POST"]),
    Route("/actions/{verb}/preview", actions.preview, methods=["POST"]),
    Route("/actions/{verb}", actions.run, methods=["POST"]),
    Route("/pause", workers.pause, methods=["POST"]),
    Route("/resume", workers.resume, methods=["POST"]),
    Route("/drain", workers.drain, methods=["POST"]),
    Route("/undrain", workers.undrain, methods=["POST"]),
    Mount("/static", StaticFiles(packages=[("postroom.console", "static")])),
]


def console(
    outbox: Outbox,
    engine: AsyncEngine,
    *,
    authorize: Authorize | None = None,
    user_name: NameUser | None = None,
    token: str | None = None,
    reader_token: str | None = None,
    read_only: bool = False,
    relay: OutboxRelay | None = None,
    publisher: Publisher | None = None,
    trace_url: str | None = None,
) -> Starlette:
    """Return the console of an outbox as a Starlette application, to mount in yours.

    `app.mount("/postroom", console(outbox, engine, authorize=…))`. Without `authorize` and without
    a token it answers only requests from its own machine. Raises ConfigurationError for options
    that contradict each other.

    - `authorize`: a function of a request that returns "reader", "operator", or None for nobody. It
      may be async
    - `user_name`: a function of a request that returns the name of the user, for the audit. It may
      be async
    - `token`, `reader_token`: tokens that operators and readers log in with, in place of
      `authorize`
    - `read_only`: refuses every change
    - `relay`: shows the routes of event types, and lets the doctor check its settings
    - `publisher`: the publisher that the doctor checks; that of the relay by default
    - `trace_url`: the address of a trace: "https://traces.example.com/trace/{trace_id}"
    """
    access = _access(authorize, user_name, token, reader_token)
    if trace_url is not None and "{trace_id}" not in trace_url:
        raise ConfigurationError("trace_url has to name the trace: …/trace/{trace_id}.")
    inspector = Inspector(outbox, engine)
    place = place_of(outbox.tables.records, engine)
    publisher = relay.publisher if publisher is None and relay is not None else publisher
    subject = Subject(outbox=outbox, engine=engine, place=place, relay=relay, publisher=publisher)
    app = Starlette(
        routes=ROUTES,
        lifespan=_sampling,
        middleware=[Middleware(Gate, access=access, read_only=read_only)],
        exception_handlers={HTTPException: explain},
    )
    samples = Samples(inspector)
    app.state.console = ConsoleState(
        outbox=outbox,
        engine=engine,
        relay=relay,
        inspector=inspector,
        access=access,
        read_only=read_only,
        place=place,
        trace_url=trace_url,
        samples=samples,
        jobs=Jobs(samples.expire),
        checkup=Checkup(subject),
    )
    return app


def _access(
    authorize: Authorize | None,
    user_name: NameUser | None,
    token: str | None,
    reader_token: str | None,
) -> Access:
    has_token = token is not None or reader_token is not None
    if authorize is not None and has_token:
        raise ConfigurationError("authorize and a token: give one of them.")
    if user_name is not None and authorize is None:
        raise ConfigurationError("user_name goes with authorize: who logs in gives a name.")
    if authorize is not None:
        return ApplicationAccess(authorize, user_name)
    return TokenAccess(token, reader_token) if has_token else LocalAccess()


@asynccontextmanager
async def _sampling(app: Starlette) -> AsyncIterator[None]:
    """Take samples while nobody looks, and end jobs. It is not called for a mounted console."""
    state: ConsoleState = app.state.console
    sampling = asyncio.create_task(_sample(state.samples), name="postroom samples")
    try:
        yield
    finally:
        sampling.cancel()
        await asyncio.wait({sampling})
        await state.jobs.stop()


async def _sample(samples: Samples) -> None:
    while True:
        try:
            await samples.latest()
        except Exception as error:  # the page that asks next says what is wrong
            logger.debug("postroom: no sample could be taken: %s", error_text(error))
        await asyncio.sleep(SAMPLE_EVERY)
