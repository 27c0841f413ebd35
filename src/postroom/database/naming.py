"""The name of a database for logs, without a password."""

from sqlalchemy import URL, Table
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.database.database import translated


def place_of(outbox_table: Table, engine: AsyncEngine) -> str:
    """Name a table and its database, without a password."""
    table = translated(engine, outbox_table).fullname
    return f"table `{table}` of {database_name(engine.url)}"


def database_name(url: URL) -> str:
    """Name a database, without its password."""
    if url.host is None:
        return f"database `{url.database}`" if url.database else "the database in memory"
    port = f":{url.port}" if url.port else ""
    host = url.host.rpartition("@")[2]  # an @ in a password has to be written as %40
    return f"database `{url.database or url.username}` at {host}{port}"
