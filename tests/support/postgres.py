"""PostgreSQL databases and roles that live as long as a test or a session."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle

import psycopg
from psycopg import sql
from psycopg.errors import InsufficientPrivilege, ObjectInUse
from sqlalchemy import URL, make_url

from tests.support.services import SECRET, missing, own_name, service_url
from tests.support.waiting import PATIENCE

KEPT: set[str] = set()
"""The names of the databases and roles that exist now, and will be dropped."""


@contextmanager
def temporary_role() -> Iterator[URL]:
    """Create a role that may create others, with the password SECRET; give the server's URL for it.

    It must own nothing at the end, when it is dropped.
    """
    server, name = _server(), own_name("role")
    role, password = sql.Identifier(name), sql.Literal(SECRET)
    create = sql.SQL("CREATE ROLE {} LOGIN CREATEDB CREATEROLE PASSWORD {}")
    _execute(server, create.format(role, password))
    KEPT.add(name)
    try:
        yield server.set(username=name, password=SECRET)
    finally:
        _execute(server, sql.SQL("DROP ROLE {}").format(role))
        KEPT.discard(name)


@contextmanager
def temporary_database(
    what: str, *, login: URL | None = None, template: str = "template0"
) -> Iterator[URL]:
    """Create a database, give its URL (without a driver), drop it with whoever is connected.

    Its commits do not wait for the disk. Nobody may be connected to the template.
    """
    server, name = login or _server(), own_name(what)
    database, copied = sql.Identifier(name), sql.Identifier(template)
    _execute(server, sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(database, copied))
    _execute(server, sql.SQL("ALTER DATABASE {} SET synchronous_commit = off").format(database))
    KEPT.add(name)
    try:
        yield server.set(database=name)
    finally:
        drop_database(server, name)
        KEPT.discard(name)


def drop_database(server: URL, name: str) -> None:
    """Drop a database, if it is there, with whoever is connected.

    By turns with FORCE, which ends clients but may not end autovacuum without being a superuser,
    and without, which ends autovacuum and waits for it.
    """
    begun = time.monotonic()
    for how in cycle((" WITH (FORCE)", "")):
        drop = sql.SQL("DROP DATABASE IF EXISTS {}" + how).format(sql.Identifier(name))
        try:
            _execute(server, drop)
            return
        except (InsufficientPrivilege, ObjectInUse):
            if time.monotonic() > begun + PATIENCE:
                raise


def _server() -> URL:
    url = service_url("POSTROOM_TEST_POSTGRES_URL")
    return make_url(url).set(drivername="postgresql")


def _execute(server: URL, statement: sql.Composed) -> None:
    address = server.render_as_string(hide_password=False)
    try:
        connection = psycopg.connect(address, autocommit=True, connect_timeout=5)
    except psycopg.OperationalError:
        raise missing(f"PostgreSQL does not answer at {server.host}:{server.port}") from None
    with connection:
        connection.execute(statement)
