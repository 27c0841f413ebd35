"""A pytest plugin that fails a test which leaves something behind, and names what it is.

It looks at this process (environment variables, working directory, child processes, listening
ports, files outside tmp_path) and at the database that tests share (schemas, tables, functions;
databases and roles of the server). What fixtures of a wider scope keep is there before the test
begins. Of RabbitMQ it looks at vhosts and users: a test may declare nothing outside its own vhost.
"""

import os
import shutil
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest
from sqlalchemy import URL

from tests.support import postgres, program, rabbitmq
from tests.support.services import OWN
from tests.support.waiting import PATIENCE, step

ON_SERVER = """
    SELECT 'database ' || datname FROM pg_database WHERE starts_with(datname, %(own)s)
    UNION ALL SELECT 'role ' || rolname FROM pg_roles WHERE starts_with(rolname, %(own)s)
    UNION ALL SELECT 'schema ' || nspname FROM pg_namespace WHERE nspname !~ '^pg_'
    UNION ALL SELECT 'table ' || oid::regclass::text FROM pg_class
        WHERE relkind IN ('r', 'v', 'm', 'p', 'f') AND oid >= 16384
        AND relnamespace <> 'pg_toast'::regnamespace
    UNION ALL SELECT 'function ' || oid::regprocedure::text FROM pg_proc WHERE oid >= 16384"""
WRITES = ("open", "os.mkdir", "sqlite3.connect")
TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT
ANYWHERE = ("/dev/", "/proc/", "/__pycache__", "/.services", "/.coverage", "/.hypothesis")
"""Parts of the paths that any test may write to."""


class Watch:
    """What this session watches."""

    shared: psycopg.Connection | None = None
    """To the database that tests share, once it exists."""
    kept: frozenset[str] = frozenset()
    """What may be there though it was not when the test began."""
    written: ClassVar[set[str]] = set()
    """The files outside the session's folder that this process has opened to write."""


@contextmanager
def watched(url: URL) -> Iterator[None]:
    """Look at this database, too."""
    address = url.render_as_string(hide_password=False)
    with psycopg.connect(address, autocommit=True) as Watch.shared:
        yield
    Watch.shared = None


def keep_process(pid: int) -> None:
    """Let a process stay that replaces one of a wider scope than the test."""
    Watch.kept |= {each for each in _processes() if each.startswith(f"process {pid} ")}


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Let what a fixture of a wider scope makes stay, also if a test asks for it while it runs."""
    if fixturedef.scope == "function":
        return (yield)
    before = _everywhere()
    value = yield
    Watch.kept |= _everywhere() - before
    return value


@pytest.fixture(scope="session", autouse=True)
def _own_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have the module tempfile use a folder of the session's own, and watch what is written."""
    tempfile.tempdir = tempfile.mkdtemp(prefix="postroom-")
    os.chmod(tempfile.tempdir, 0o711)  # noqa: S103 - servers run there as another user
    allowed = (str(tmp_path_factory.getbasetemp()), tempfile.tempdir)

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event in WRITES and (event != "open" or arguments[2] & TO_WRITE):
            with suppress(TypeError, OSError):  # a number, or no working directory
                path = os.path.abspath(os.fsdecode(arguments[0]))
                if not path.startswith(allowed) and not any(each in path for each in ANYWHERE):
                    Watch.written.add(path)

    sys.addaudithook(note)
    yield
    shutil.rmtree(tempfile.tempdir)
    tempfile.tempdir = None


@pytest.fixture(autouse=True)
def _nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    unit = request.node.nodeid.startswith("tests/unit")
    look = _in_process if unit else _everywhere
    before = look()
    Watch.written.clear()
    yield
    left = _what_stays(lambda: look() - before - Watch.kept)
    left |= rabbitmq.left_behind()
    left |= {f"file {path}" for path in Watch.written if os.path.exists(path)}
    if left:
        pytest.fail(f"left behind: {', '.join(sorted(left))}", pytrace=False)


def _what_stays(look: Callable[[], frozenset[str]]) -> frozenset[str]:
    """Wait for what ends by itself, such as a process that was killed."""
    begun = time.monotonic()
    while (left := look()) and (waited := time.monotonic() - begun) < PATIENCE / 6:
        time.sleep(step(waited))
    return left


def _everywhere() -> frozenset[str]:
    return _in_process() | _on_server()


def _in_process() -> frozenset[str]:
    variables = (f"variable {name}={value}" for name, value in os.environ.items())
    return frozenset(
        [each for each in variables if not each.startswith("variable PYTEST_CURRENT_TEST")]
        + [f"working directory {os.getcwd()}"]
        + [f"file {path}" for path in Path(tempfile.gettempdir()).iterdir()]
        + list(_listening())
        + list(_processes())
    )


def _listening() -> Iterator[str]:
    for number in map(int, os.listdir("/dev/fd")):
        with suppress(OSError):  # the folder's own
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                with socket.socket(fileno=os.dup(number)) as each:
                    if each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                        yield f"port {each.getsockname()}"


def _processes() -> Iterator[str]:
    """Name the children of this process and of the server of programs, where /proc tells."""
    servers = program.server_pids()
    for parent in (os.getpid(), *servers):
        for child in _children(parent):
            with suppress(OSError):  # it has just ended
                ended = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
                if child not in servers and not ended:
                    command = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
                    yield f"process {child} {command}".rstrip()


def _children(parent: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{parent}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, task.read_text().split())
    return found


def _on_server() -> frozenset[str]:
    if Watch.shared is None:
        return frozenset()
    names = Watch.shared.execute(ON_SERVER, {"own": OWN})
    kept = {f"{kind} {name}" for kind in ("database", "role") for name in postgres.KEPT}
    return frozenset(name for [name] in names) - kept
