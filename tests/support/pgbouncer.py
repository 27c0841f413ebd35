"""A PgBouncer of a test's own: transactions of many clients share a few connections."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from sqlalchemy import URL, make_url

from scripts.servers import HOST, find_program
from tests.chaos.server import lesser_user
from tests.support.ports import free_ports
from tests.support.services import missing
from tests.support.waiting import PATIENCE, step

POOL_SIZE = 4
"""How many connections to PostgreSQL there are."""
SETTINGS = """
[databases]
{database} = host={host} port={port} {login}

[pgbouncer]
listen_addr = {listen}
listen_port = {listen_port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {pool_size}
server_round_robin = 1
max_client_conn = 100
"""


@contextmanager
def pgbouncer_to(database_url: str, *, pool_size: int = POOL_SIZE) -> Iterator[URL]:
    """Start PgBouncer before a database; give the URL of that database through it.

    Each transaction gets the connection that was not used for longest. Everybody is let in, as
    the user whom the URL names.
    """
    program, user = _program(), lesser_user()
    with tempfile.TemporaryDirectory(prefix="postroom-pgbouncer-") as home:
        if user is not None:
            shutil.chown(home, user)
        url = make_url(database_url)
        pooled = url.set(host=HOST, port=free_ports(1)[0])
        settings = _write_settings(Path(home), url, pooled, pool_size)
        log = settings.with_name("log")
        with log.open("wb") as err:
            process = subprocess.Popen([program, str(settings)], user=user, cwd="/", stderr=err)
        try:
            _wait(process, pooled, log)
            yield pooled
        finally:
            process.kill()
            process.wait()


def _program() -> str:
    found = find_program("pgbouncer")
    if found is None:
        raise missing("PgBouncer (Debian's package pgbouncer) is not installed")
    return found


def _write_settings(home: Path, url: URL, pooled: URL, pool_size: int) -> Path:
    path = home / "pgbouncer.ini"
    password = f" password={url.password}" if url.password else ""
    text = SETTINGS.format(
        database=url.database,
        host=url.host,
        port=url.port or 5432,
        login=f"user={url.username}{password}",
        listen=HOST,
        listen_port=pooled.port,
        pool_size=pool_size,
    )
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)  # the folder is closed to others
    return path


def _wait(process: subprocess.Popen[bytes], pooled: URL, log: Path) -> None:
    """Wait until it answers. (Also where no event loop runs.)"""
    address = pooled.set(drivername="postgresql").render_as_string(hide_password=False)
    begun = time.monotonic()
    while True:
        try:
            psycopg.connect(address, connect_timeout=5).close()
            return
        except psycopg.OperationalError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < begun + PATIENCE, log.read_text()
            time.sleep(step(time.monotonic() - begun))
