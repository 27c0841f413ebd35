"""Connects an operator's command with its outbox, or says why that failed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from postroom.cli.errors import CommandError, Exit
from postroom.cli.options import Connection, named_in_code

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

    from postroom.inspection import Inspector
    from postroom.operations import Operations
    from postroom.outbox import Outbox
    from postroom.relay.relay import OutboxRelay

Found: TypeAlias = "tuple[Outbox, AsyncEngine, OutboxRelay | None]"
WHICH = (
    "which outbox? Name its database (--database URL, or DATABASE_URL), or a relay"
    " (--relay app.outbox:relay, or POSTROOM_RELAY)."
)
READ_ONLY = (
    "nothing was changed: --read-only is on (the option, POSTROOM_READ_ONLY, or read_only in"
    " [tool.postroom])."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """What an operator's command works with."""

    outbox: "Outbox"
    engine: "AsyncEngine"
    relay: "OutboxRelay | None"
    place: str
    """Table and database, without a password."""

    @property
    def inspector(self) -> "Inspector":
        """Answers questions about the outbox."""
        from postroom.inspection import Inspector

        return Inspector(self.outbox, self.engine)

    @property
    def operations(self) -> "Operations":
        """Changes the outbox, and tells the workers."""
        from postroom.operations import Operations
        from postroom.wakeup.notifier import CHANNEL

        channel = CHANNEL if self.relay is None else self.relay.settings.listen
        return Operations(self.outbox, self.engine, channel=channel)


@asynccontextmanager
async def connected(connection: Connection, *, change: bool = False) -> AsyncIterator[Connected]:
    """Give a command its outbox and engine; close the engine at the end of the block.

    Raises CommandError: for a `change` that `--read-only` forbids, and in place of an error of
    the database or its tables.
    """
    if change and connection.read_only:
        raise CommandError(READ_ONLY)
    outbox, engine, relay = await _found(connection)
    from postroom.database.naming import place_of

    where = place_of(outbox.tables.records, engine)
    try:
        yield Connected(outbox=outbox, engine=engine, relay=relay, place=where)
    except BrokenPipeError:  # of the command's own output: `postroom status --watch | head`
        raise
    except Exception as error:
        raise await _explained(error, outbox, engine) or error from error
    finally:
        await engine.dispose()


async def _found(connection: Connection) -> Found:
    """Load what the user's code has, or make an outbox for a database."""
    from postroom.cli.database import engine_of, outbox_of

    name = named_in_code(connection)
    if name is not None:
        return await _found_in_code(name, connection)
    if connection.database is None:
        raise CommandError(WHICH)
    return outbox_of(connection), engine_of(connection.database), None


async def _found_in_code(name: str, connection: Connection) -> Found:
    """Load a relay, or an outbox beside a database."""
    from postroom.cli.database import engine_of
    from postroom.cli.loading import load
    from postroom.outbox import Outbox
    from postroom.relay.relay import OutboxRelay

    found: Outbox | OutboxRelay = await load(name, OutboxRelay, Outbox)
    _refuse_unused(connection, name, is_relay=isinstance(found, OutboxRelay))
    if isinstance(found, OutboxRelay):
        return found.outbox, found.engine, found
    if connection.database is None:
        raise CommandError(f"{name} is an Outbox. Name its database, too: --database URL.")
    return found, engine_of(connection.database), None


def _refuse_unused(connection: Connection, name: str, *, is_relay: bool) -> None:
    """Raise CommandError for an option that says what the user's code says already."""
    of_the_outbox = ("table", "schema", "redact")
    for option in ("database", *of_the_outbox) if is_relay else of_the_outbox:
        if option in connection.given:
            raise CommandError(f"--{option} and --relay: the code that makes {name} decides that.")


async def _explained(
    error: Exception, outbox: "Outbox", engine: "AsyncEngine"
) -> CommandError | None:
    """Return the error for the user in place of one of the database; None if it is another."""
    from postroom.cli.database import (
        bad_database,
        bad_schema,
        is_database_unusable,
    )
    from postroom.database.errors import is_table_missing
    from postroom.errors import InspectionTimeoutError, RecordNotFoundError, SchemaError
    from postroom.tables.check import check_schema

    if isinstance(error, SchemaError):
        return bad_schema(error)
    if isinstance(error, RecordNotFoundError):
        return CommandError(str(error), Exit.PROBLEM)
    if isinstance(error, InspectionTimeoutError):
        return CommandError(str(error), Exit.DATABASE)
    if is_table_missing(error):
        try:
            async with engine.connect() as checking:
                await checking.run_sync(check_schema, outbox.tables)
        except SchemaError as drift:
            return bad_schema(drift)
    if is_database_unusable(error):
        return bad_database(error, engine.url)
    return None
