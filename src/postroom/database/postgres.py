"""PostgreSQL: its SQL, its transactions, and the settings of the relay's own connections."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Table, event, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from postroom.database.errors import Kind, kind_of

HAS_SETTINGS: Final = "postroom settings"
POOLED: Final = "postroom pooled"
LOCK_TIMEOUT: Final = 800
"""Milliseconds to wait for a lock. PostgreSQL looks for deadlocks after 1000: if a relay is in one
with a migration, it has given up by then, and the migration goes on."""


class PostgresDialect:
    """PostgreSQL. `now()` can be an index condition; `clock_timestamp()` cannot.

    Lists of objects are passed as JSON, which both databases turn into rows.

    Every transaction ends by itself within `lease`, whatever happens to the process that began it.
    """

    now = "(now() + make_interval(secs => CAST(:shift AS double precision)))"
    share_lock = "FOR SHARE"
    lock = "FOR UPDATE"
    skip_locked = "FOR UPDATE SKIP LOCKED"
    try_lock = "SELECT pg_try_advisory_xact_lock(hashtext(:table), 0)"
    typed = True
    """Whether a column holds only values of its type."""
    shares_work = True
    """Whether several workers divide the partitions, or the first takes all."""
    shielded = False
    """Whether a transaction must not be interrupted by a cancelled task."""

    def __init__(self, name: str, lease: timedelta, time_limit: timedelta | None = None) -> None:
        quarter = max(1000, int(250 * lease.total_seconds()))
        limit = None if time_limit is None else max(1, int(1000 * time_limit.total_seconds()))
        self._name = f"postroom {name}".replace("'", "")[:63]
        self._settings = {
            "lock_timeout": limit or LOCK_TIMEOUT,
            "idle_in_transaction_session_timeout": quarter,
            "statement_timeout": limit or 2 * quarter,
            # A statement may be a transaction by itself; each is to see the latest.
            "default_transaction_isolation": "read committed",
            # Plans must not depend on statistics: a prepared statement may keep the plan that was
            # best for an empty table. A hash or a merge would read all of an index. Without
            # jit=off, a disabled scan has statements compiled.
            "enable_seqscan": "off",
            "enable_bitmapscan": "off",
            "enable_hashjoin": "off",
            "enable_mergejoin": "off",
            "jit": "off",
            # The server notices a worker whose network is cut.
            "tcp_keepalives_idle": max(1, quarter // 1000),
            "tcp_keepalives_interval": max(1, quarter // 1000),
            "tcp_keepalives_count": 2,
            "tcp_user_timeout": 2 * quarter,
        }

    def install(self, engine: AsyncEngine) -> None:
        """Apply the settings to each connection that the relay's own engine makes.

        A connection through PgBouncer is shared with the application: see `begin`.
        """

        @event.listens_for(engine.sync_engine, "connect")
        def apply(connection: Any, record: Any) -> None:
            cursor = connection.cursor()
            cursor.execute("SELECT pg_backend_pid()")
            record.info[POOLED] = cursor.fetchone()[0] != _expected_pid(connection)
            if not record.info[POOLED]:
                cursor.execute(self.set_config(local=False))
                record.info[HAS_SETTINGS] = True
            cursor.close()
            connection.commit()

    @asynccontextmanager
    async def begin(self, engine: AsyncEngine, *, snapshot: bool) -> AsyncIterator[AsyncConnection]:
        """Begin a transaction that reads one moment, or whose statements each see the latest."""
        await self.prepare(engine)
        isolation = "REPEATABLE READ" if snapshot else "READ COMMITTED"
        async with engine.connect() as connection:
            await connection.execution_options(isolation_level=isolation)
            try:
                async with connection.begin():
                    if not self.has_settings(await _info(connection)):
                        settings = self.set_config(local=True).replace(":", r"\:")
                        await connection.execute(text(settings))
                    yield connection
            except Exception as error:
                if kind_of(error) is Kind.OUTAGE:  # such as of a server that became read-only
                    await connection.invalidate()
                raise

    def has_settings(self, info: Mapping[Any, Any]) -> bool:
        """Return whether the settings were applied to a connection that has this in its `info`."""
        return HAS_SETTINGS in info

    def set_config(self, *, local: bool) -> str:
        """Write the statement that applies the settings: to a connection, or a transaction only."""
        values = {name: f"'{value}'" for name, value in self._settings.items()}
        given = "nullif(current_setting('application_name'), '')"  # by the application
        values["application_name"] = f"coalesce({given}, '{self._name}')"
        calls = [f"set_config('{name}', {value}, {local})" for name, value in values.items()]
        return f"SELECT {', '.join(calls)}"

    async def prepare(self, engine: AsyncEngine) -> None:
        """Wait until SQLAlchemy knows the server.

        The first connection of all finds that out. A second one at the same moment would not wait.
        """
        while getattr(engine.dialect, "default_isolation_level", None) is None:
            async with engine.connect():
                await asyncio.sleep(0)

    def after(self, seconds: str) -> str:
        """Return the moment some seconds from now."""
        return f"({self.now} + make_interval(secs => CAST({seconds} AS double precision)))"

    def seconds_between(self, earlier: str, later: str) -> str:
        """Return the seconds from one moment to another."""
        return f"extract(epoch FROM {later} - {earlier})"

    def whole(self, number: str) -> str:
        """Return a number above 0 without its fraction."""
        return f"CAST(floor({number}) AS integer)"

    def text(self, column: str) -> str:
        """Return a column as text, whatever it holds."""
        return f"CAST({column} AS text)"

    def identity(self, column: str) -> str:
        """Return a column of ids as the driver reads them best."""
        return column

    def rows(self, name: str, columns: Mapping[str, str]) -> str:
        """Return a parameter, a JSON list of objects, as rows under the parameter's name."""
        definition = ", ".join(f"{column} {type_}" for column, type_ in columns.items())
        return f"json_to_recordset(CAST(:{name} AS json)) AS {name}({definition})"

    def each(self, source: str, table: str, condition: str) -> str:
        """Return, as `w`, the rows `r` of a table that a condition picks for each row of a source.

        The condition has its own LIMIT, so that the planner cannot make one big join of it.
        """
        return f"{source} CROSS JOIN LATERAL (SELECT r.* FROM {table} r WHERE {condition}) AS w"

    def counted(self, change: str) -> str:
        """Write a statement that returns, in sum, the `number` of rows that a change concerned."""
        return f"WITH done AS ({change} RETURNING 1) SELECT count(*) AS number FROM done"

    def within(self, select: str) -> str:
        """Compare with the result of a SELECT, by index whatever the planner expects of it."""
        return f"= ANY (ARRAY({select}))"

    def among(self, parameter: str) -> str:
        """Compare with a list of numbers."""
        return f"= ANY (CAST(CAST(:{parameter} AS text) AS bigint[]))"

    def not_among(self, column: str, parameter: str, type_: str = "bigint") -> str:
        """Compare with a list of numbers or ids, which may be long. No index serves it."""
        # A SELECT is hashed; a list is gone through for every row, once the plan is generic. As a
        # number, because the planner takes half of the rows to be in it otherwise, and then sorts.
        listed = f"{column} IN (SELECT unnest(CAST(CAST(:{parameter} AS text) AS {type_}[])))"
        return f"CAST({listed} AS integer) <> 1"

    def matches(self, column: str, parameter: str) -> str:
        """Compare with a pattern that `pattern` has written."""
        return f"{column} LIKE :{parameter}"

    def pattern(self, text: str) -> str:
        """Write a pattern in which * stands for any text, as the value of a parameter."""
        escaped = text.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
        return escaped.replace("*", "%")

    def contains(self, column: str, parameter: str) -> str:
        """Search for a text, upper or lower case."""
        return f"strpos(lower({column}), lower(CAST(:{parameter} AS text))) > 0"

    def moment(self, parameter: str) -> str:
        """Return a moment that `time` has written."""
        return f"CAST(:{parameter} AS timestamptz)"

    def time(self, moment: datetime) -> Any:
        """Return the value of a parameter that is a moment."""
        return moment

    def estimate(self, table: str) -> str:
        """Return about how many rows a table has, without counting them."""
        name = table.replace("'", "''")
        return f"""(SELECT CASE WHEN pg_stat_get_live_tuples(c.oid) > 0
            THEN pg_stat_get_live_tuples(c.oid) ELSE greatest(CAST(c.reltuples AS bigint), 0) END
            FROM pg_catalog.pg_class c WHERE c.oid = to_regclass('{name}'))"""

    def merged(self, column: str, parameter: str) -> str:
        """Return a column of JSON objects with the members of another object, which is JSON."""
        return f"{column} || CAST(:{parameter} AS jsonb)"

    def clock(self, shift: timedelta) -> Mapping[str, Any]:
        """Return the parameters of `now`."""
        return {"shift": shift.total_seconds()}

    def writers(self, table: str) -> str:
        """Write the statement for the transactions that may have numbered rows of a table.

        Each holds this lock from before it takes a number until its commit can be seen. One that is
        prepared for a commit in two phases may have lost its name, as by a restart: then it is ''.
        """
        return f"""SELECT CASE WHEN virtualtransaction LIKE '-1/%' THEN ''
                ELSE virtualtransaction END AS writer FROM pg_catalog.pg_locks
            WHERE locktype = 'relation' AND mode = 'RowExclusiveLock'
            AND relation = to_regclass('{table.replace("'", "''")}') AND database = (
                SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())"""

    def server(self, table: Table) -> str:
        """Write a number that changes when a server is restarted, or another one takes over."""
        return "(SELECT CAST(extract(epoch FROM pg_postmaster_start_time()) * 1000000 AS bigint))"

    def is_another(self, server: int, before: int) -> bool:
        """Return whether a server may have lost commits since `server` was asked before."""
        return server != before

    def numbers(self, values: Collection[Any]) -> Any:
        """Return the value of a parameter that is a list of numbers or ids."""
        return f"{{{','.join(map(str, values))}}}"  # as text: asyncpg would look the type up


async def is_behind_pgbouncer(engine: AsyncEngine) -> bool:
    """Return whether another program, such as PgBouncer, stands between us and the server."""
    async with engine.connect() as connection:
        return bool((await _info(connection)).get(POOLED))


async def _info(connection: AsyncConnection) -> dict[Any, Any]:
    """Return what is remembered with a connection for as long as it is open."""
    return (await connection.get_raw_connection()).info


def _expected_pid(connection: Any) -> int:
    """Return the server process that the driver believes it talks to; PgBouncer makes one up."""
    driver = connection.driver_connection
    if hasattr(driver, "get_server_pid"):  # asyncpg
        return int(driver.get_server_pid())
    return int(driver.info.backend_pid)  # psycopg
