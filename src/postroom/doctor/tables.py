"""Judges the outbox tables on PostgreSQL. Pure: no I/O."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from postroom.doctor.finding import Finding, note, ok, problem
from postroom.inspection import counted
from postroom.inspection.database.server import ServerFacts
from postroom.inspection.database.tables import IndexFacts, TableFacts

MANY_DEAD: Final = 10_000
DEAD_SHARE: Final = 0.2
"""Dead rows are a problem if there are so many, and if they are this share of all rows."""
BIG: Final = 64 * 1024 * 1024
BYTES_PER_ENTRY: Final = 1000
"""An entry of an index takes 50 bytes, and 700 with the longest ids. In a big index that has more
room for each, most of it is empty."""
MANY_ROWS: Final = 1000
OFF: Final = ("false", "off", "no", "0")


def judge_drift(drift: Sequence[str], client: str) -> Iterator[Finding]:
    """Judge the differences between the tables and their definition.

    `client`: the command that runs SQL.
    """
    remedy = f"postroom schema sql | {client}  # review it first"
    for each in drift[:-1]:
        yield problem(each)
    for each in drift[-1:]:
        yield problem(each, remedy)
    if not drift:
        yield ok("tables, columns and indexes are those that this version needs")


def judge_storage(
    tables: Sequence[TableFacts], wanted: Mapping[str, Mapping[str, float]]
) -> Iterator[Finding]:
    """Judge the storage parameters. `wanted`: those that postroom defines, by table."""
    found = [finding for table in tables for finding in _storage(table, wanted.get(table.name, {}))]
    yield from found
    if tables and not found:
        yield ok("the tables have their storage parameters")


def _storage(table: TableFacts, wanted: Mapping[str, float]) -> Iterator[Finding]:
    missing = {name: value for name, value in wanted.items() if name not in table.options}
    if missing:
        listed = ", ".join(f"{name} = {value:g}" for name, value in missing.items())
        yield note(
            f"{table.name} lacks storage parameters that postroom creates it with: {listed}",
            f"ALTER TABLE {table.name} SET ({listed});",
        )
    if table.hides_rows:
        yield problem(
            f"row level security hides rows of {table.name} from this role",
            f"ALTER TABLE {table.name} DISABLE ROW LEVEL SECURITY;",
        )


def judge_indexes(indexes: Sequence[IndexFacts], own: Collection[str]) -> Iterator[Finding]:
    """Judge whether indexes can be used. `own`: the names of those that postroom defines."""
    for each in indexes:
        if each.is_building:
            yield note(f"index {each.quoted} of {each.table} is being built")
        elif not each.is_valid:
            repair = "REINDEX INDEX" if each.name in own else "DROP INDEX"
            yield problem(
                f"index {each.quoted} of {each.table} is invalid: writes maintain it, no query"
                " can use it",
                f"{repair} CONCURRENTLY {each.quoted};",
            )
        elif each.bytes > BIG and each.bytes > BYTES_PER_ENTRY * each.entries:
            yield note(
                f"index {each.quoted} takes {megabytes(each.bytes)} for {each.entries:,} entries:"
                " most of it is empty",
                f"REINDEX INDEX CONCURRENTLY {each.quoted};",
            )
    if indexes and all(each.is_valid for each in indexes):
        yield ok(f"all {len(indexes)} are valid")


def judge_autovacuum(server: ServerFacts, tables: Sequence[TableFacts]) -> Iterator[Finding]:
    """Judge whether autovacuum may work on the tables."""
    is_on = True
    for setting in ("autovacuum", "track_counts"):
        if server.settings.get(setting) == "off":
            is_on = False
            yield problem(
                f"{setting} is off on this server: dead rows stay, and claims become slower",
                f"ALTER SYSTEM SET {setting} = on;",
                "SELECT pg_reload_conf();",
            )
    for table in tables:
        for name in ("autovacuum_enabled", "toast.autovacuum_enabled"):
            if table.options.get(name, "on").lower() in OFF:
                is_on = False
                yield problem(
                    f"autovacuum is off for {table.name}: its dead rows stay",
                    f"ALTER TABLE {table.name} RESET ({name});",
                )
    if is_on:
        yield ok("autovacuum is on for every table")


def judge_dead_rows(server: ServerFacts, tables: Sequence[TableFacts]) -> Iterator[Finding]:
    """Judge whether vacuum keeps up with what dies."""
    behind = [table for table in tables if _is_behind(table)]
    for table in behind:
        yield problem(
            f"{table.name} has {table.dead_rows:,} dead rows beside {table.live_rows:,} live ones:"
            " vacuum does not keep up",
            f"VACUUM (ANALYZE) {table.name};",
        )
    most = int(server.settings.get("autovacuum_max_workers", "0"))
    if behind and most and server.vacuums >= most:
        yield note(
            f"all {most} autovacuum workers are busy with other tables",
            f"ALTER SYSTEM SET autovacuum_max_workers = {2 * most};  -- needs a restart",
        )
    if tables and not behind:
        size = sum(table.bytes + table.index_bytes for table in tables)
        dead = sum(table.dead_rows for table in tables)
        yield ok(f"{counted(dead, 'dead row')}; tables and indexes take {megabytes(size)}")


def _is_behind(table: TableFacts) -> bool:
    share = DEAD_SHARE * (table.live_rows + table.dead_rows)
    return table.dead_rows >= max(MANY_DEAD, share)


def judge_statistics(tables: Sequence[TableFacts]) -> Iterator[Finding]:
    """Judge whether the planner knows the tables; operators' commands need that."""
    old = [table for table in tables if table.changes >= max(MANY_ROWS, table.live_rows)]
    for table in old:
        when = "was never analyzed" if table.analyzed_at is None else "has changed since ANALYZE"
        yield note(
            f"{table.name} {when} ({table.changes:,} changes): counts that are estimates are wrong",
            f"ANALYZE {table.name};",
        )
    if tables and not old:
        yield ok("the planner's statistics are recent")


def megabytes(size: int) -> str:
    """Write a size."""
    return f"{size / 2**20:,.1f} MB" if size < 2**30 else f"{size / 2**30:,.1f} GB"
