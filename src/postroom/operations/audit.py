"""The audit: what an operator changed, written in the transaction of the change."""

import getpass
import os
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self
from uuid import UUID

from sqlalchemy import text

from postroom.database.database import Database, Run, as_rows

IDS_KEPT: Final = 100
"""How many ids of changed records an entry lists."""
ENTRY: Final = {
    "operator": "text",
    "host": "text",
    "action": "text",
    "target": "text",
    "records": "integer",
    "details": "jsonb",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row of the audit. A change in several transactions updates its row in each of them."""

    action: str
    target: str
    details: Mapping[str, Any] = field(default_factory=dict)
    records: int = 0
    id: int | None = None
    """None: not written yet."""

    def changed(self, count: int, ids: Collection[UUID] = ()) -> Self:
        """Return the entry with more changed records, and their ids as far as it lists them."""
        entry = replace(self, records=self.records + count)
        listed = [*self.details.get("ids", ()), *map(str, ids)][:IDS_KEPT]
        return entry.with_details(ids=listed) if listed else entry

    def with_details(self, **details: Any) -> Self:
        """Return the entry with more details."""
        return replace(self, details={**self.details, **details})


class Audit:
    """Writes entries. `operator` and `host` are this process's user and machine by default."""

    def __init__(self, database: Database, operator: str | None, host: str | None) -> None:
        self.operator = operator or os_user()
        self.host = host or socket.gethostname()
        n, sql = database, database.sql
        columns, entry = ", ".join(ENTRY), sql.rows("entry", ENTRY)
        self._insert = text(f"""INSERT INTO {n.audit} (changed_at, {columns})
            SELECT {sql.now}, {columns} FROM {entry} RETURNING id""")
        self._update = text(f"""UPDATE {n.audit} SET records = entry.records,
            details = entry.details FROM {entry} WHERE {n.audit}.id = :id""")

    async def write(self, run: Run, entry: Entry) -> Entry:
        """Insert an entry, or update one that was inserted; return it with its id."""
        row: dict[str, Any] = {"operator": self.operator, "host": self.host}
        row |= {name: getattr(entry, name) for name in ("action", "target", "records", "details")}
        if entry.id is not None:
            await run(self._update, entry=as_rows([row]), id=entry.id)
            return entry
        [inserted] = await run(self._insert, entry=as_rows([row]))
        return replace(entry, id=inserted.id)


def os_user() -> str:
    """Return the name of the user of this process; the number of one without a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # as in a container; which of them depends on Python's version
        return f"uid {os.getuid()}"
