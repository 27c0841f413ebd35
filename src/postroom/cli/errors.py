"""The errors that end a command: one line for the user, and an exit code for the shell."""

from enum import IntEnum

from sqlalchemy import URL

from postroom.database.errors import database_outage, sql_state
from postroom.errors import SchemaError, error_text

INSUFFICIENT_PRIVILEGE = "42501"


class Exit(IntEnum):
    """The exit codes of a command."""

    OK = 0
    """The command did what it was asked to do."""
    BUG = 1
    """An unexpected error; its traceback is in the log."""
    USAGE = 2
    """A flag, a setting, a module or an extra is wrong or missing."""
    DATABASE = 3
    """The database cannot be used: not reached, or not let in."""
    SCHEMA = 4
    """The outbox tables are not there, or not as this version needs them."""
    BROKER = 5
    """The broker cannot be used, or does not agree with the topology."""


BY_SIGNAL = 128
"""Added to the number of the second signal: the exit code of a worker that it stopped."""


class CommandError(Exception):
    """Raised when a command cannot go on. Its text is one line, with the remedy."""

    def __init__(self, text: str, code: Exit = Exit.USAGE) -> None:
        self.code = code
        super().__init__(" ".join(text.split()))


EXTRAS = {
    "asyncpg": "postgres",
    "aiosqlite": "sqlite",
    "pamqp": "rabbitmq",
    "dishka": "dishka",
    "fastapi": "fastapi",
    "alembic": "alembic",
    "pydantic": "pydantic",
}


def missing_extra(error: ModuleNotFoundError) -> CommandError | None:
    """Name the extra that a missing module belongs to, if it is one of ours."""
    extra = EXTRAS.get((error.name or "").partition(".")[0])
    if extra is None:
        return None
    return CommandError(f"{error.name} is not installed. Run: pip install 'postroom[{extra}]'")


def bad_schema(error: SchemaError) -> CommandError:
    """Say the first thing that is wrong with the tables, and how many more there are."""
    more = len(error.drift) - 1
    rest = f" ({more} more like it.)" if more else ""
    return CommandError(f"{error.drift[0]}{rest}", Exit.SCHEMA)


def bad_database(error: BaseException, url: URL) -> CommandError:
    """Say that a database cannot be used, and where it was looked for."""
    remedy = "Check the URL, the user and the password."
    if _is_denied(error):
        remedy = "Grant the user SELECT, INSERT, UPDATE and DELETE on the outbox tables."
    return CommandError(f"cannot use {place(url)}: {error_text(error)}. {remedy}", Exit.DATABASE)


def is_database_unusable(error: BaseException) -> bool:
    """Tell whether an error means that the database cannot be used with these settings."""
    unknown_option = isinstance(error, TypeError) and "unexpected keyword argument" in str(error)
    no_name = isinstance(error, UnicodeError)  # of a host
    return unknown_option or no_name or _is_denied(error) or database_outage(error)


def _is_denied(error: BaseException) -> bool:
    return sql_state(error) == INSUFFICIENT_PRIVILEGE


def place(url: URL) -> str:
    """Name a database, without its password."""
    if url.host is None:
        return f"database `{url.database}`" if url.database else "the database in memory"
    port = f":{url.port}" if url.port else ""
    return f"database `{url.database or url.username}` at {url.host}{port}"
