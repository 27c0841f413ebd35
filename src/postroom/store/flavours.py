"""What PostgreSQL and SQLite write differently in the statements that they share."""

import json
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol
from uuid import UUID


class Flavour(Protocol):
    """Pieces of SQL. Lists of objects travel as JSON, which both databases turn into rows."""

    now: str
    share_lock: str
    lock: str

    def after(self, seconds: str) -> str:
        """Give the moment so many seconds from now."""

    def text(self, column: str) -> str:
        """Give a column as text, whatever it holds."""

    def identity(self, column: str) -> str:
        """Give a column of ids as the driver reads them best."""

    def is_time(self, column: str) -> str:
        """Tell whether a column holds a time, as it should."""

    def rows(self, name: str, columns: Mapping[str, str]) -> str:
        """Give a parameter, a list of objects, as rows under the parameter's name."""

    def each(self, source: str, table: str, condition: str) -> str:
        """Give, as `w`, the rows `r` of a table that a condition picks for each row of a source.

        The condition has its own LIMIT, so that the planner cannot make one big join of it.
        """

    def within(self, select: str) -> str:
        """Compare with what a SELECT gives, by index whatever the planner expects of it."""

    def among(self, parameter: str) -> str:
        """Compare with a list of numbers."""

    def not_among(self, column: str, parameter: str) -> str:
        """Compare with a list of numbers, which may be long."""

    def clock(self, shift: timedelta) -> Mapping[str, Any]:
        """Give the parameters of `now`."""

    def numbers(self, values: Collection[int]) -> Any:
        """Give the value of a parameter that is a list of numbers."""

    def identifier(self, value: UUID) -> str:
        """Write a record's id as the database compares it."""


class PostgresFlavour:
    """PostgreSQL. `now()` is an index condition; `clock_timestamp()` would not be."""

    now = "(now() + make_interval(secs => CAST(:shift AS double precision)))"
    share_lock = "FOR SHARE"
    lock = "FOR UPDATE"

    def after(self, seconds: str) -> str:
        return f"({self.now} + make_interval(secs => CAST({seconds} AS double precision)))"

    def text(self, column: str) -> str:
        return f"CAST({column} AS text)"

    def identity(self, column: str) -> str:
        return column

    def is_time(self, column: str) -> str:
        return f"{column} IS NOT NULL"  # nothing else fits; 'infinity' is somebody's decision

    def rows(self, name: str, columns: Mapping[str, str]) -> str:
        definition = ", ".join(f"{column} {type_}" for column, type_ in columns.items())
        return f"json_to_recordset(CAST(:{name} AS json)) AS {name}({definition})"

    def each(self, source: str, table: str, condition: str) -> str:
        return f"{source} CROSS JOIN LATERAL (SELECT r.* FROM {table} r WHERE {condition}) AS w"

    def within(self, select: str) -> str:
        return f"= ANY (ARRAY({select}))"

    def among(self, parameter: str) -> str:
        return f"= ANY (CAST(:{parameter} AS bigint[]))"

    def not_among(self, column: str, parameter: str) -> str:
        # A SELECT is hashed; a list is gone through for every row, once the plan is generic. As a
        # number, because the planner takes half of the rows to be in it otherwise, and then sorts.
        listed = f"{column} IN (SELECT unnest(CAST(:{parameter} AS bigint[])))"
        return f"CAST({listed} AS integer) <> 1"

    def clock(self, shift: timedelta) -> Mapping[str, Any]:
        return {"shift": shift.total_seconds()}

    def numbers(self, values: Collection[int]) -> Any:
        return list(values)

    def identifier(self, value: UUID) -> str:
        return str(value)


class SQLiteFlavour:
    """SQLite: one machine, one clock; one writer, who holds the whole file."""

    now = ":now"
    share_lock = ""
    lock = ""

    def after(self, seconds: str) -> str:
        # To the millisecond, with the six digits that SQLAlchemy reads and writes.
        return f"(strftime('%Y-%m-%d %H\\:%M\\:%f', :now, ({seconds}) || ' seconds') || '000')"

    def text(self, column: str) -> str:
        # Bytes, which no column is meant to hold, need not be text.
        return (
            f"CASE typeof({column}) WHEN 'blob' THEN hex({column}) ELSE CAST({column} AS text) END"
        )

    def identity(self, column: str) -> str:
        return self.text(column)

    def is_time(self, column: str) -> str:
        return f"typeof({column}) = 'text' AND julianday({column}) IS NOT NULL"

    def rows(self, name: str, columns: Mapping[str, str]) -> str:
        values = ", ".join(f"json_extract(value, '$.{each}') AS {each}" for each in columns)
        return f"(SELECT {values} FROM json_each(:{name})) AS {name}"

    def each(self, source: str, table: str, condition: str) -> str:
        picked = f"SELECT r.rowid FROM {table} r WHERE {condition}"
        return f"{source} CROSS JOIN {table} AS w ON w.rowid IN ({picked})"

    def within(self, select: str) -> str:
        return f"IN ({select})"

    def among(self, parameter: str) -> str:
        return f"IN (SELECT value FROM json_each(:{parameter}))"

    def not_among(self, column: str, parameter: str) -> str:
        return f"{column} NOT IN (SELECT value FROM json_each(:{parameter}))"

    def clock(self, shift: timedelta) -> Mapping[str, Any]:
        now = datetime.now(UTC) + shift
        return {"now": now.strftime("%Y-%m-%d %H:%M:%S.%f")}

    def numbers(self, values: Collection[int]) -> Any:
        return json.dumps(list(values))

    def identifier(self, value: UUID) -> str:
        return value.hex
