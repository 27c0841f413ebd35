"""The database of a command: its engine, its name in a text, and what its errors mean."""

from pathlib import Path

from sqlalchemy import URL, MetaData, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from postroom.cli.errors import CommandError, Exit, missing_extra
from postroom.cli.options import Connection, WorkerSettings
from postroom.database.errors import BROKEN, STATES, database_outage, describe, sql_state
from postroom.database.naming import database_name
from postroom.errors import SchemaError, error_text
from postroom.outbox import Outbox

INSUFFICIENT_PRIVILEGE = "42501"
DRIVERS = {
    "postgres": "postgresql+asyncpg",
    "postgresql": "postgresql+asyncpg",
    "sqlite": "sqlite+aiosqlite",
}
SHAPE = "postgresql://user:password@host:5432/name, or sqlite:///path/to/file"


def outbox_of(settings: WorkerSettings | Connection) -> Outbox:
    """Make the outbox that the settings describe."""
    return Outbox(MetaData(), table=settings.table, schema=settings.schema, redact=settings.redact)


def engine_of(database: str) -> AsyncEngine:
    """Make an engine of a URL, with or without a driver. Raises CommandError without the URL."""
    try:
        url = make_url(database)
    except (ArgumentError, ValueError):
        raise CommandError(f"the database's URL cannot be read. Its form is {SHAPE}.") from None
    _check_file(url)
    try:
        return create_async_engine(_with_driver(url), hide_parameters=True)
    except ModuleNotFoundError as error:
        raise missing_extra(error) or CommandError(_unknown(url)) from error
    except SQLAlchemyError as error:  # a driver that is not async, or not known
        raise CommandError(_unknown(url)) from error


def _with_driver(url: URL) -> URL:
    driver = DRIVERS.get(url.drivername, url.drivername)
    if driver.partition("+")[0] not in ("postgresql", "sqlite"):
        raise CommandError(_unknown(url))
    if "@" in (url.host or "") or (url.host and "@" in (url.database or "")):
        raise CommandError("the database's URL has an @ in its user or password: write %40 for it.")
    if url.port is not None and not 0 < url.port < 65536:
        raise CommandError(f"the database's URL has port {url.port}. Ports end at 65535.")
    url = url.set(drivername=driver)
    if driver == "postgresql+asyncpg" and "sslmode" in url.query:  # which asyncpg calls `ssl`
        mode = str(url.query["sslmode"])
        url = url.difference_update_query(["sslmode"]).update_query_dict({"ssl": mode})
    return url


def _check_file(url: URL) -> None:
    """Refuse a file that is not there: SQLite would make an empty one."""
    path = url.database or ":memory:"
    special = path.startswith((":memory:", "file:"))
    if url.get_backend_name() == "sqlite" and not special and not Path(path).is_file():
        raise CommandError(f"there is no database file {path}.", Exit.DATABASE)


def _unknown(url: URL) -> str:
    return f"postroom has no way to use {url.drivername!r}. The URL's form is {SHAPE}."


def bad_schema(error: SchemaError) -> CommandError:
    """Say the first thing that is wrong with the tables, and how many more there are."""
    more = len(error.drift) - 1
    rest = f" ({more} more like it.)" if more else ""
    return CommandError(f"{error.drift[0]}{rest}", Exit.SCHEMA)


def bad_database(error: BaseException, url: URL) -> CommandError:
    """Say that a database cannot be used, and where it was looked for."""
    remedy, text = "Check the URL, the user and the password.", describe(error)
    if text in {*STATES.values(), BROKEN}:
        remedy = "Run the command again."
    if _is_denied(error):
        remedy = "`postroom doctor` prints the GRANT statements that the user needs."
        if "for schema" in error_text(error):
            remedy = (
                "Use a role that may create tables: GRANT CREATE ON SCHEMA … TO …, or the owner."
            )
    return CommandError(f"cannot use {database_name(url)}: {text}. {remedy}", Exit.DATABASE)


def is_database_unusable(error: BaseException) -> bool:
    """Tell whether an error means that the database cannot be used with these settings."""
    unknown_option = isinstance(error, TypeError) and "unexpected keyword argument" in str(error)
    no_name = isinstance(error, UnicodeError)  # of a host
    return unknown_option or no_name or _is_denied(error) or database_outage(error)


def _is_denied(error: BaseException) -> bool:
    return sql_state(error) == INSUFFICIENT_PRIVILEGE
