"""A PostgreSQL server of a test's own, which it may stop in the middle of things."""

import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql

from scripts.servers import HOST, is_root
from tests.support.ports import free_ports
from tests.support.services import missing
from tests.support.waiting import PATIENCE

FAST = "-c fsync=off -c unix_socket_directories= -c max_connections=20 -c shared_buffers=16MB"
PREPARES = "-c max_prepared_transactions=5"


class Server:
    """Listens on a port of its own; lives in a directory of its own."""

    def __init__(self, home: Path, user: str | None) -> None:
        self._data = home / "data"
        self._log = home / "log"
        self._user = user
        [self.port] = free_ports(1)

    @property
    def url(self) -> str:
        return f"postgresql+asyncpg://postroom@{HOST}:{self.port}/postgres"

    def create(self) -> None:
        login = ("--username=postroom", "--auth=trust")
        self._run("initdb", "--encoding=UTF8", "--no-sync", *login, f"--pgdata={self._data}")

    def copy(self, primary: "Server", port: int) -> None:
        """Be a standby of another server, asynchronous, which finds it at a port."""
        address = ("--host", HOST, "--port", str(primary.port), "--username=postroom")
        self._run(
            "pg_basebackup", "--no-sync", "--checkpoint=fast", f"--pgdata={self._data}", *address
        )
        source = f"host={HOST} port={port} user=postroom application_name=standby"
        with (self._data / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"primary_conninfo = '{source}'\n")
        (self._data / "standby.signal").touch()

    def promote(self) -> None:
        """End being a standby, with what has come from the primary by now."""
        self._control("promote", "--wait")

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses={HOST} {FAST} {PREPARES}"
        self._control("start", "--wait", f"--log={self._log}", "-o", options)

    def crash(self) -> None:
        """Stop it as a power cut would."""
        self._control("stop", "--wait", "--mode=immediate")

    def ask_for_password(self, name: str, password: str) -> None:
        """Make a user who is not let in without a password."""
        rules = self._data / "pg_hba.conf"
        rules.write_text(f"host all {name} {HOST}/32 scram-sha-256\n{rules.read_text()}")
        user, secret = sql.Identifier(name), sql.Literal(password)
        with self._connect() as connection:
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(user, secret))
        self._control("restart", "--wait", "--mode=immediate")

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(f"host={HOST} port={self.port} user=postroom dbname=postgres")

    @property
    def runs(self) -> bool:
        return (self._data / "postmaster.pid").exists()

    def _control(self, *words: str) -> None:
        self._run("pg_ctl", f"--pgdata={self._data}", *words)

    def _run(self, program: str, *words: str) -> None:
        subprocess.run(
            [_program(program), *words],
            check=True,
            user=self._user,
            cwd="/",
            stdout=subprocess.DEVNULL,
            timeout=PATIENCE,
        )


@contextmanager
def private_server() -> Iterator[Server]:
    """Make a server and start it; nothing is left of it afterwards."""
    with _server() as server:
        server.create()
        server.start()
        yield server


@contextmanager
def standby_of(primary: Server, port: int) -> Iterator[Server]:
    """Make a standby that finds its primary at a port, and start it."""
    with _server() as server:
        server.copy(primary, port)
        server.start()
        yield server


@contextmanager
def _server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="postroom-chaos-") as home:
        user = lesser_user()
        if user is not None:
            shutil.chown(home, user)
        server = Server(Path(home), user)
        try:
            yield server
        finally:
            if server.runs:
                server.crash()


def _program(name: str) -> str:
    debian = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    found = str(debian[-1]) if debian else shutil.which(name)
    if found is None:
        raise missing(f"PostgreSQL's {name} is not installed")
    return found


def lesser_user() -> str | None:
    """Give whom to run as: PostgreSQL refuses to run as root."""
    if not is_root():
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"
