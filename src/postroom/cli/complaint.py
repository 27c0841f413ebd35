"""What a command says when it cannot go on: one line, and a number for whoever started it."""

from enum import IntEnum

from sqlalchemy import URL

from postroom.errors import SchemaError, error_text
from postroom.store.errors import database_outage

INSUFFICIENT_PRIVILEGE = "42501"


class Exit(IntEnum):
    """How a command ends."""

    OK = 0
    """As it was told to."""
    BUG = 1
    """By an error that nobody foresaw; its traceback is in the log."""
    USAGE = 2
    """A flag, a setting, a module or an extra is wrong or missing."""
    DATABASE = 3
    """The database cannot be used: not reached, or not let in."""
    SCHEMA = 4
    """The outbox tables are not there, or not as this version needs them."""
    BROKER = 5
    """The broker cannot be used, or does not agree with the topology."""


BY_SIGNAL = 128
"""To which the number of a second signal is added."""


class Complaint(Exception):  # noqa: N818 - its text is what the user reads
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


def missing_extra(error: ModuleNotFoundError) -> Complaint | None:
    """Name the extra that a missing module belongs to, if it is one of ours."""
    extra = EXTRAS.get((error.name or "").partition(".")[0])
    if extra is None:
        return None
    return Complaint(f"{error.name} is not installed. Run: pip install 'postroom[{extra}]'")


def bad_schema(error: SchemaError) -> Complaint:
    """Say the first thing that is wrong with the tables, and how many more there are."""
    more = len(error.drift) - 1
    rest = f" ({more} more like it.)" if more else ""
    return Complaint(f"{error.drift[0]}{rest}", Exit.SCHEMA)


def bad_database(error: BaseException, url: URL) -> Complaint:
    """Say that a database cannot be used, and where it was looked for."""
    remedy = "Check the URL, the user and the password."
    if _is_denied(error):
        remedy = "Grant the user SELECT, INSERT, UPDATE and DELETE on the outbox tables."
    return Complaint(f"cannot use {place(url)}: {error_text(error)}. {remedy}", Exit.DATABASE)


def is_foreseen(error: BaseException) -> bool:
    """Tell whether an error says that the database cannot be used as it was told to be."""
    unknown_option = isinstance(error, TypeError) and "unexpected keyword argument" in str(error)
    no_name = isinstance(error, UnicodeError)  # of a host
    return unknown_option or no_name or _is_denied(error) or database_outage(error)


def _is_denied(error: BaseException) -> bool:
    return getattr(getattr(error, "orig", None), "sqlstate", None) == INSUFFICIENT_PRIVILEGE


def place(url: URL) -> str:
    """Name a database, without its password."""
    if url.host is None:
        return f"database `{url.database}`" if url.database else "the database in memory"
    port = f":{url.port}" if url.port else ""
    return f"database `{url.database or url.username}` at {url.host}{port}"
