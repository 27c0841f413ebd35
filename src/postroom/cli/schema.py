"""`postroom schema`: whether the tables are as they should be, and the SQL that makes them so."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from postroom.cli import output, values
from postroom.cli.command import command
from postroom.cli.connecting import Connected, connected
from postroom.cli.errors import CommandError, Exit
from postroom.cli.options import AsJson, Connection
from postroom.cli.output import Cell

if TYPE_CHECKING:
    from postroom.tables.check import Drift
    from postroom.tables.tables import OutboxTables

HELP = """Check the outbox tables, print their SQL, or run it.

[bold]Examples[/bold]
  postroom schema check
  postroom schema sql
  postroom schema sql --apply
"""
schema = typer.Typer(name="schema", help=HELP, no_args_is_help=True)
Dialect = Annotated[
    Any,
    typer.Option(
        parser=values.dialect,
        metavar="postgresql|sqlite",
        help="Print the SQL for a new database of this kind, without a connection.",
    ),
]
Apply = Annotated[bool, typer.Option("--apply", help="Run the SQL, in one transaction.")]


@schema.command()
@command
async def check(connection: Connection, json: AsJson = False) -> int:
    """Compare the outbox tables with what this version of postroom needs.

    Columns and indexes that you have added yourself are no difference.

    [bold]Examples[/bold]
      postroom schema check --database postgresql://app@db/shop
      postroom schema check --relay app.outbox:relay --json

    [bold]Exit codes[/bold]
      0  the tables are as they should be
      4  they are missing or differ, as the output says
    """
    async with connected(connection) as found:
        drift = [each.text for each in await _compare(found)]
    if json:
        output.print_json({"outbox": found.place, "drift": drift})
    elif drift:
        for each in drift:
            output.print_line(Cell("differs  ", "bad"), each)
    else:
        _print_ok(found)
    return Exit.SCHEMA if drift else Exit.OK


@schema.command()
@command
async def sql(connection: Connection, dialect: Dialect = None, apply: Apply = False) -> int:
    """Print the SQL that creates the outbox tables, or what they lack, for review.

    With a database, it is what that database lacks. What only you can decide is in comments.
    With --apply it is run and not printed; if something is left to decide, nothing is changed.

    [bold]Examples[/bold]
      postroom schema sql | psql "$DATABASE_URL"
      postroom schema sql --apply
      postroom schema sql --dialect postgresql --table outbox_events --schema auth
      postroom schema sql --dialect sqlite | sqlite3 shop.db

    [bold]Exit codes[/bold]
      0  the SQL makes the tables what they should be
      4  something is left that only you can decide
    """
    from postroom.tables.script import creation_script, upgrade_script

    if apply:
        if dialect is not None:
            raise CommandError("--dialect prints, --apply runs: leave one of them out.")
        return await _apply(connection)
    if dialect is not None:
        print(creation_script(await _named_tables(connection), dialect), end="")
        return Exit.OK
    async with connected(connection) as found:
        drift = await _compare(found)
        print(upgrade_script(drift, found.engine.dialect.name), end="")
    return Exit.SCHEMA if any(each.repair is None for each in drift) else Exit.OK


async def _apply(connection: Connection) -> int:
    """Create what the tables lack; raise CommandError for what only a person can decide."""
    from postroom.tables.check import upgrade_schema

    async with connected(connection, change=True) as found:
        async with found.engine.begin() as transaction:
            await transaction.run_sync(upgrade_schema, _tables(found))
        _print_ok(found)
    return Exit.OK


def _print_ok(found: Connected) -> None:
    output.print_line(Cell("ok       ", "good"), f"{found.place} is as it should be")


async def _named_tables(connection: Connection) -> "OutboxTables":
    """Return the tables of the relay or the outbox in the user's code, or of these names."""
    from sqlalchemy import MetaData

    from postroom.cli.loading import load
    from postroom.cli.options import named_in_code
    from postroom.outbox import Outbox
    from postroom.relay.relay import OutboxRelay
    from postroom.tables.tables import define_tables

    name = named_in_code(connection)
    if name is None:
        return define_tables(MetaData(), table=connection.table, schema=connection.schema)
    found: Outbox | OutboxRelay = await load(name, OutboxRelay, Outbox)
    return (found.outbox if isinstance(found, OutboxRelay) else found).tables


async def _compare(found: Connected) -> "list[Drift]":
    from postroom.tables.check import compare

    async with found.engine.connect() as connection:
        return await connection.run_sync(compare, _tables(found))


def _tables(found: Connected) -> "OutboxTables":
    """Define the tables anew, in the schema that the engine's options translate theirs to."""
    from sqlalchemy import MetaData

    from postroom.database.database import translated
    from postroom.tables.tables import define_tables

    records = translated(found.engine, found.outbox.tables.records)
    return define_tables(MetaData(), table=records.name, schema=records.schema)
