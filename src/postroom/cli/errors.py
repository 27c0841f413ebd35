"""The errors that end a command: one line for the user, and an exit code for the shell."""

import sysconfig
from enum import IntEnum
from pathlib import Path
from traceback import extract_tb

from sqlalchemy import URL
from sqlalchemy.exc import InvalidRequestError

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


SYNC_DRIVERS = ("psycopg", "psycopg2")
URL_PARSER = ("sqlalchemy", "engine", "url.py")


def missing_extra(error: ModuleNotFoundError) -> CommandError | None:
    """Name the extra that a missing module belongs to, if it is one of ours."""
    extra = EXTRAS.get((error.name or "").partition(".")[0])
    if extra is None:
        return None
    return CommandError(f"{error.name} is not installed. Run: pip install 'postroom[{extra}]'")


def raised_by_user(error: Exception) -> str:
    """Say what a user's own module raised, and in which line; not the line, which may be secret."""
    frames = extract_tb(error.__traceback__)
    text = f"{type(error).__name__}: {error_text(error)}".rstrip(".")
    if Path(frames[-1].filename).parts[-3:] == URL_PARSER:
        text = "the URL of a database cannot be read"  # its error may say a piece of the password
    if lines := [
        f"{_short(name)}, line {number}" for name, number, *_ in frames if _is_users(name)
    ]:
        text = f"{lines[-1]}: {text}"
    return f"{text}.{_driver_remedy(error)}"


def _driver_remedy(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name in SYNC_DRIVERS:
        return " SQLAlchemy needs it for postgresql://. Write postgresql+asyncpg://."
    if isinstance(error, InvalidRequestError) and "async driver" in str(error):
        return " Write postgresql+asyncpg://, or sqlite+aiosqlite://."
    return ""


def _is_users(filename: str) -> bool:
    libraries = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}
    ours = str(Path(__file__).parents[1])
    return not filename.startswith((*libraries, ours, "<"))


def _short(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


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
    host = url.host.rpartition("@")[2]  # an @ in a password has to be written as %40
    return f"database `{url.database or url.username}` at {host}{port}"
