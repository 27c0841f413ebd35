"""What the current role may do with the outbox tables on PostgreSQL."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import text

from postroom.database.database import as_rows, translated
from postroom.inspection.database.tables import table_names
from postroom.inspection.reading import Reader

SEQUENCE: Final = "position"
"""What the sequence of the positions is called among the tables."""
USAGE: Final = "USAGE"
KINDS: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")
READ_POSITION: Final = "SELECT (position)"
"""A privilege on one column of the records."""
ROLE: Final = text("""SELECT quote_ident(current_user) AS role,
        quote_ident(CAST(:schema AS text)) AS schema,
        coalesce((SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace
            WHERE nspname = CAST(:schema AS text)), true) AS may_enter""")
PRIVILEGES: Final = text(f"""SELECT tables.kind, {
    ", ".join(f"has_table_privilege(c.oid, '{each}') AS {each.lower()}_" for each in KINDS)
}
    FROM json_to_recordset(CAST(:names AS json)) AS tables(kind text, name text)
    JOIN pg_class c ON c.oid = to_regclass(tables.name)""")
SEQUENCES: Final = text("""SELECT sequence,
        has_sequence_privilege(sequence, 'USAGE') OR has_sequence_privilege(sequence, 'UPDATE')
            AS may_use,
        has_column_privilege(CAST(:table AS text), 'position', 'SELECT') AS may_read
    FROM (SELECT pg_get_serial_sequence(CAST(:table AS text), a.attname) AS sequence
        FROM pg_attribute a WHERE a.attrelid = to_regclass(CAST(:table AS text))
            AND a.attname = 'position' AND NOT a.attisdropped OFFSET 0) AS s
    WHERE sequence IS NOT NULL""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Privileges:
    """What a role may do with each table, by what postroom calls the tables."""

    role: str
    """Quoted for SQL, as all names here are."""
    schema: str | None
    """The schema that the role may not enter; None if it may."""
    names: dict[str, str]
    held: dict[str, frozenset[str]]


async def read_privileges(reader: Reader) -> Privileges:
    """Return what the current role may do."""
    names = table_names(reader)
    schema = translated(reader.database.engine, reader.outbox.tables.records).schema
    async with reader.ask("the permissions") as run:
        [role] = await run(ROLE, schema=schema or "")
        if schema is not None and not role.may_enter:
            return Privileges(role=role.role, schema=role.schema, names=names, held={})
        listed = as_rows({"kind": kind, "name": name} for kind, name in names.items())
        held = {
            row.kind: frozenset(each for each in KINDS if getattr(row, f"{each.lower()}_"))
            for row in await run(PRIVILEGES, names=listed)
        }
        for row in await run(SEQUENCES, table=names["records"]):
            names[SEQUENCE] = row.sequence
            held[SEQUENCE] = frozenset([USAGE] if row.may_use else [])
            held["records"] |= {READ_POSITION} if row.may_read else set()
    return Privileges(role=role.role, schema=None, names=names, held=held)
