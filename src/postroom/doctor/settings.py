"""Judges a relay's settings against each other. Pure: no I/O."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from postroom.doctor.finding import Finding, note, ok, problem
from postroom.inspection import duration
from postroom.relay.settings import RelaySettings

SHORT_LEASE: Final = timedelta(seconds=4)
"""A transaction may take a second to get a lock, and two for a statement, whatever the lease."""
LONG_POLL: Final = timedelta(minutes=1)
ZERO: Final = timedelta()


def judge_settings(
    settings: RelaySettings, *, pool: int | None, handlers: int | None, pooler: bool
) -> Iterator[Finding]:
    """Judge settings.

    `pool`: connections that the engine may open, if there is a limit; `handlers`: how many
    handlers run at once, if handlers it is; `pooler`: whether PgBouncer is in between.
    """
    found = [*_timings(settings), *_listening(settings, pooler=pooler), *_history(settings)]
    if pool is not None and handlers is not None and handlers > pool:
        found.append(
            note(
                f"{handlers} handlers run at once, and the engine may open {pool} connections: the"
                " others wait for one",
                "HandlersPublisher(max_in_flight=…), or create_async_engine(pool_size=…)",
            )
        )
    yield from found or [ok("no setting contradicts another")]


def _timings(settings: RelaySettings) -> Iterator[Finding]:
    if settings.lease < SHORT_LEASE:
        yield note(
            f"the lease is {duration(settings.lease)}: a busy database may take longer, and"
            " another worker then delivers the same records",
            "OutboxRelay(lease=timedelta(seconds=10)), --lease 10",
        )
    if settings.listen is None and settings.poll_interval > LONG_POLL:
        yield note(
            f"the relay only polls, every {duration(settings.poll_interval)}: commits of other"
            " processes wait for that long",
            "OutboxRelay(poll_interval=timedelta(seconds=2)), --poll-interval 2",
        )


def _listening(settings: RelaySettings, *, pooler: bool) -> Iterator[Finding]:
    if settings.listen is not None and pooler:
        yield problem(
            "the relay listens for commits, and PgBouncer delivers no notification: it only polls,"
            f" every {duration(settings.poll_interval)}",
            "OutboxRelay(listen=None, poll_interval=timedelta(seconds=2)), or connect directly",
        )


def _history(settings: RelaySettings) -> Iterator[Finding]:
    if settings.retention == ZERO:
        yield note(
            "retention is 0: a delivered record is deleted at once, so that replay, list and show"
            " do not find it",
            "OutboxRelay(retention=timedelta(days=7)), --cleanup-days 7",
        )
    if settings.retention is None:
        yield note(
            "retention is None: delivered records stay for ever, and the table grows",
            "OutboxRelay(retention=timedelta(days=7)), --cleanup-days 7; or postroom purge",
        )
