"""`postroom schema`: what differs is listed, and psql and sqlite3 take the SQL as it is."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from sqlalchemy import URL, make_url

from tests.support.in_process import InProcess
from tests.support.services import missing, own_name
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.requirement("E6"), pytest.mark.requirement("E11")]

USAGE, DATABASE, SCHEMA = 2, 3, 4
EMPTY = "DROP SCHEMA public CASCADE; CREATE SCHEMA public;"


class Place:
    """A database, with the client program of its kind."""

    def __init__(self, dialect: str, url: str, *client: str) -> None:
        self.dialect, self.url, self._client = dialect, url, client

    def feed(self, script: str) -> None:
        """Have the client program run a script, which it must have nothing to say about."""
        if shutil.which(self._client[0]) is None:
            raise missing(f"{self._client[0]} is not installed")
        done = subprocess.run(
            self._client, input=script.encode(), capture_output=True, timeout=PATIENCE, check=False
        )
        assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()


@pytest.fixture(params=["postgresql", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A database without a table."""
    if request.param == "sqlite":
        file = tmp_path / "shop.db"
        file.touch()
        return Place("sqlite", f"sqlite:///{file}", "sqlite3", "-bail", str(file))
    database: URL = request.getfixturevalue("doctor_database")
    url = database.render_as_string(hide_password=False)
    place = Place("postgresql", url, "psql", "-q", "-v", "ON_ERROR_STOP=1", url)
    place.feed(f"SET client_min_messages = error; {EMPTY}")
    return place


def test_without_tables_the_check_names_each_and_the_sql_creates_them(
    run_postroom: InProcess, place: Place
) -> None:
    checked = run_postroom("schema", "check", "--database", place.url)
    assert checked.code == SCHEMA
    lines = checked.out.splitlines()
    assert len(lines) == 8
    assert lines[0].startswith("differs  ")
    assert "`outbox`" in lines[0]
    created = run_postroom("schema", "sql", "--database", place.url)
    assert created.code == 0
    place.feed(created.out)
    checked = run_postroom("schema", "check", "--database", place.url)
    assert (checked.code, checked.out[:9]) == (0, "ok       ")
    assert run_postroom("schema", "sql", "--database", place.url).out == "-- Nothing is missing.\n"


def test_the_sql_for_a_dialect_needs_no_connection_and_can_be_run_twice(
    run_postroom: InProcess, place: Place
) -> None:
    words = ("--table", "Out%box" if place.dialect == "postgresql" else "out_box")
    script = run_postroom("schema", "sql", "--dialect", place.dialect, *words)
    assert script.code == 0
    place.feed(script.out)
    place.feed(script.out)
    checked = run_postroom("schema", "check", "--database", place.url, *words)
    assert checked.code == 0, checked.out


def test_a_schema_with_an_awkward_name_is_created_too(
    run_postroom: InProcess, doctor_database: URL
) -> None:
    url = doctor_database.render_as_string(hide_password=False)
    place = Place("postgresql", url, "psql", "-q", "-v", "ON_ERROR_STOP=1", url)
    words = ("--database", url, "--schema", 'we"i:rd%', "--table", "Out%box")
    place.feed(run_postroom("schema", "sql", *words).out)
    assert run_postroom("schema", "check", *words).code == 0


def test_what_is_missing_is_added_and_nothing_else(run_postroom: InProcess, place: Place) -> None:
    place.feed(run_postroom("schema", "sql", "--dialect", place.dialect).out)
    place.feed("DROP INDEX ix_outbox_held; ALTER TABLE outbox DROP COLUMN error_message;")
    script = run_postroom("schema", "sql", "--database", place.url)
    assert script.code == 0
    statements = [line for line in script.out.splitlines() if line.startswith(("ALTER", "CREATE"))]
    assert [line.split("(")[0].strip() for line in statements] == [
        "ALTER TABLE outbox ADD COLUMN error_message TEXT;",
        "CREATE INDEX ix_outbox_held ON outbox",
    ]
    assert ("CREATE INDEX CONCURRENTLY" in script.out) == (place.dialect == "postgresql")
    place.feed(script.out)
    assert run_postroom("schema", "check", "--database", place.url).code == 0


def test_what_only_a_person_can_decide_is_a_comment_and_is_not_applied(
    run_postroom: InProcess, place: Place
) -> None:
    place.feed(run_postroom("schema", "sql", "--dialect", place.dialect).out)
    place.feed("ALTER TABLE outbox DROP COLUMN occurred_at; DROP INDEX ix_outbox_held;")
    by_hand = "`occurred_at`"
    line = run_postroom("schema", "sql", "--apply", "--database", place.url).error_line(SCHEMA)
    assert by_hand in line
    checked = run_postroom("schema", "check", "--database", place.url)
    assert "`ix_outbox_held`" in checked.out
    script = run_postroom("schema", "sql", "--database", place.url)
    assert script.code == SCHEMA
    first = script.out.splitlines()[0]
    assert first.startswith("-- By hand: ")
    assert by_hand in first
    place.feed(script.out)
    checked = run_postroom("schema", "check", "--database", place.url, "--json")
    assert checked.code == SCHEMA
    [drift] = json.loads(checked.out)["drift"]
    assert by_hand in drift


def test_apply_creates_what_is_missing_and_can_be_repeated(
    run_postroom: InProcess, place: Place
) -> None:
    for _ in range(2):
        applied = run_postroom("schema", "sql", "--apply", "--database", place.url)
        assert (applied.code, applied.out[:9], applied.err) == (0, "ok       ", "")
    assert run_postroom("schema", "check", "--database", place.url).code == 0
    place.feed("DROP INDEX ix_outbox_held;")
    assert run_postroom("schema", "sql", "--apply", "--database", place.url).code == 0
    assert run_postroom("schema", "check", "--database", place.url).code == 0


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_apply_by_a_role_that_may_not_create_tables(run_postroom: InProcess, place: Place) -> None:
    role = own_name("role")
    place.feed(
        f"CREATE ROLE {role} LOGIN PASSWORD '{role}'; GRANT {role} TO CURRENT_USER;"
        f" GRANT USAGE ON SCHEMA public TO {role};"
    )
    login = make_url(place.url).set(username=role, password=role)
    url = login.render_as_string(hide_password=False)
    try:
        line = run_postroom("schema", "sql", "--apply", "--database", url).error_line(DATABASE)
    finally:
        place.feed(f"DROP OWNED BY {role}; DROP ROLE {role};")
    assert "GRANT CREATE ON SCHEMA" in line


def test_the_tables_of_a_relay_or_an_outbox_in_code_are_meant(run_postroom: InProcess) -> None:
    run_postroom.write(
        "shop.py",
        """
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine

from postroom import MemoryPublisher, Outbox, OutboxRelay

outbox = Outbox(MetaData(), table="letters")
engine = create_async_engine("sqlite+aiosqlite:///shop.db")
relay = OutboxRelay(outbox, engine, MemoryPublisher())
""",
    )
    for target in ("outbox", "relay"):
        words = ("--relay", f"shop:{target}", "--dialect", "sqlite")
        script = run_postroom("schema", "sql", *words)
        assert "letters_leases (" in script.out
    checked = run_postroom("schema", "check", "--relay", "shop:relay")
    assert checked.code == SCHEMA
    assert "no table `letters`" in checked.out


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("check", "--database", "postgresql://127.0.0.1:1/shop"), DATABASE, "127.0.0.1:1"),
        (("sql", "--dialect", "oracle"), USAGE, "postgresql, sqlite"),
        (("sql",), USAGE, "which outbox?"),
        (("sql", "--apply", "--dialect", "sqlite", "--table", "x"), USAGE, "--dialect"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    run_postroom: InProcess, words: tuple[str, ...], code: int, says: str
) -> None:
    assert says in run_postroom("schema", *words).error_line(code)


def test_apply_is_refused_if_nothing_may_change(run_postroom: InProcess, tmp_path: Path) -> None:
    (tmp_path / "shop.db").touch()
    words = ("schema", "sql", "--apply", "--database", "sqlite:///shop.db")
    assert "--read-only" in run_postroom("--read-only", *words).error_line(USAGE)
    assert run_postroom("schema", "check", "--database", "sqlite:///shop.db").code == SCHEMA
