"""PostgreSQL databases that live as long as a test or a session."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql
from sqlalchemy import URL, make_url

from tests.support.services import missing


@contextmanager
def temporary_database(server_url: str, name: str, *, template: str = "template0") -> Iterator[URL]:
    """Create a database, give its URL (without a driver), drop it with whoever is connected.

    Its commits do not wait for the disk. Nobody may be connected to the template.
    """
    server = make_url(server_url).set(drivername="postgresql")
    database, copied = sql.Identifier(name), sql.Identifier(template)
    _execute(server, sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(database, copied))
    _execute(server, sql.SQL("ALTER DATABASE {} SET synchronous_commit = off").format(database))
    try:
        yield server.set(database=name)
    finally:
        _execute(server, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(database))


def _execute(server: URL, statement: sql.Composed) -> None:
    address = server.render_as_string(hide_password=False)
    try:
        connection = psycopg.connect(address, autocommit=True, connect_timeout=5)
    except psycopg.OperationalError:
        raise missing(f"PostgreSQL does not answer at {server.host}:{server.port}") from None
    with connection:
        connection.execute(statement)
