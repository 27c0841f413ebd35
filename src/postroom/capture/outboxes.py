"""Which outbox a dispatcher, middleware or interceptor uses if it is given none."""

import gc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from sqlalchemy import Table, inspect
from sqlalchemy.orm import Mapper

from postroom.errors import ConfigurationError
from postroom.events.registry import EventRegistry
from postroom.record import OutboxRecord

OUTBOXES: Final = "postroom.outboxes"
"""Where the `info` of a MetaData keeps its outboxes, by their table of records.

(Not that of the table: Alembic writes it into migrations.)"""
CaptureCallback = Callable[[OutboxRecord], object]
"""Takes a record that is captured. It may add to the record's headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSettings:
    """What an outbox asks of the events that are saved in it."""

    record: type[OutboxRecord]
    max_retries: int | None
    max_payload_bytes: int
    max_header_bytes: int
    headers: Callable[[], Mapping[str, Any]]
    registry: EventRegistry
    callbacks: list[CaptureCallback] = field(default_factory=list, compare=False)
    """What is called with each record before it is saved."""


class CapturingOutbox(Protocol):
    """What the ways in need of an `Outbox`."""

    @property
    def settings(self) -> CaptureSettings:
        """What it asks of events."""


def settings_of(outbox: CapturingOutbox | None) -> CaptureSettings:
    """Give the settings of an outbox, or else those of the only outbox in this process."""
    if outbox is not None:
        return outbox.settings
    if len(list(_outboxes())) > 1:
        # An outbox that nobody holds, as of a test that has ended, does not count. The first pass
        # frees the session classes that it captured, and with them what refers to it.
        gc.collect()
        gc.collect()
    known = list(_outboxes())
    if len(known) == 1:
        return known[0][1].settings
    if not known:
        raise ConfigurationError(
            "there is no outbox yet. Make one at start-up, with Outbox(Base.metadata) or"
            " map_outbox_table(registry)."
        )
    tables = ", ".join(sorted(f"`{table.fullname}`" for table, _ in known))
    raise ConfigurationError(
        f"there are {len(known)} outboxes in this process (tables {tables}), and none was given."
        " Give one: OutboxEventDispatcher(session, outbox=outbox), OutboxMiddleware(outbox=outbox),"
        " DomainEventOutboxInterceptor(outbox=outbox), Depends(outbox_middleware(outbox))."
    )


def _outboxes(
    record: type[OutboxRecord] = OutboxRecord,
) -> Iterator[tuple[Table, CapturingOutbox]]:
    """Find all outboxes: each maps OutboxRecord or a subclass of it."""
    mapper: Mapper[Any] | None = inspect(record, raiseerr=False)
    table = mapper.local_table if mapper is not None else None
    if isinstance(table, Table) and table in table.metadata.info.get(OUTBOXES, {}):
        yield table, table.metadata.info[OUTBOXES][table]
    for subclass in record.__subclasses__():
        yield from _outboxes(subclass)
