"""PostgreSQL databases and roles that live as long as a test or a session."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql
from sqlalchemy import URL, make_url

from tests.support.services import missing

SECRET = "s3cr:t/p@ss#%?&"
"""A password, of characters that are hard to write in a URL."""


@contextmanager
def temporary_role(server_url: str, name: str) -> Iterator[URL]:
    """Create a role that may create others, with the password SECRET; give the server's URL for it.

    It shall own nothing any more at the end, when it is dropped.
    """
    server = make_url(server_url).set(drivername="postgresql")
    role, password = sql.Identifier(name), sql.Literal(SECRET)
    create = sql.SQL("CREATE ROLE {} LOGIN CREATEDB CREATEROLE PASSWORD {}")
    _execute(server, create.format(role, password))
    try:
        yield server.set(username=name, password=SECRET)
    finally:
        _execute(server, sql.SQL("DROP ROLE {}").format(role))


@contextmanager
def temporary_database(
    server_url: str | URL, name: str, *, template: str = "template0"
) -> Iterator[URL]:
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
