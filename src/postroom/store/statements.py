"""Every statement of the relay that both databases share, by name, with what it is for."""

from typing import Final

from sqlalchemy import Dialect, Table, text

from postroom.store.flavours import Flavour
from postroom.store.table import OutboxTables

NUMBERS: Final = ("position", "partition", "event_version", "retry_count", "max_retries")
TEXTS: Final = ("event_type", "aggregate_type", "aggregate_id", "payload", "headers", "status")
TIMES: Final = ("occurred_at", "created_at")
KEY: Final = {"aggregate_type": "text", "aggregate_id": "text"}
GATE: Final = {**KEY, "position": "bigint"}
ATTEMPT: Final = {
    "at": "bigint",
    "outcome": "text",
    "attempts": "integer",
    "reason": "text",
    "delay": "double precision",
}
HELD: Final = "NOT r.ready AND r.status <> 'published'"
PARKED: Final = f"{HELD} AND r.status = 'pending' AND r.due_at IS NULL"


class Names:
    """The tables' names, quoted as the database wants them."""

    def __init__(self, tables: OutboxTables, dialect: Dialect) -> None:
        preparer = dialect.identifier_preparer
        # A driver that wants % doubled has text() do that once more.
        percent = "%%" if getattr(preparer, "_double_percents", False) else "%"

        def name(table: Table) -> str:
            return preparer.format_table(table).replace(percent, "%").replace(":", r"\:")

        self.records, self.leases = name(tables.records), name(tables.leases)
        self.workers, self.blocked = name(tables.workers), name(tables.blocked_keys)


def record_columns(sql: Flavour) -> str:
    """List what a claim reads, so that no value stops it: not even a time that Python lacks."""
    numbers = [f"w.{name}" for name in NUMBERS]
    texts = [f"{sql.text(f'w.{name}')} AS {name}" for name in TEXTS]
    known = "BETWEEN '0001-01-02' AND '9999-12-30'"
    times = [f"CASE WHEN w.{name} {known} THEN w.{name} END AS {name}" for name in TIMES]
    return ", ".join([*numbers, f"{sql.identity('w.id')} AS id", *texts, *times])


def within_partition(order: str) -> str:
    """Read a partition in order, from nowhere but the index that is made for it.

    As a range the partition is part of the order, which the primary key cannot give. With an `=`
    the planner may walk that instead, through everything that was ever delivered.
    """
    return f"""r.partition BETWEEN partitions.partition AND partitions.partition
        ORDER BY r.partition, {order}"""


class LeaseStatements:
    """Who serves which partition."""

    def __init__(self, n: Names, sql: Flavour) -> None:
        # One row per partition, made when the first relay of an outbox starts.
        partitions = sql.rows("partitions", {"partition": "smallint"})
        self.seed = text(f"""INSERT INTO {n.leases} (partition)
            SELECT partition FROM {partitions} WHERE true ON CONFLICT DO NOTHING""")

        # Before a delivery that may kill the process: what it is. One suspect per worker.
        self.suspect = text(f"""UPDATE {n.leases} SET
            suspect_crashes = CASE WHEN partition = :partition AND suspect = :position
                THEN suspect_crashes ELSE 0 END,
            suspect = CASE WHEN partition = :partition THEN CAST(:position AS bigint) END
            WHERE worker = :worker AND (suspect IS NOT NULL OR partition = :partition)
            RETURNING partition, token""")

        # It has been served without a crash.
        self.calm = text(f"""UPDATE {n.leases} SET crash_count = 0, suspect = NULL,
            suspect_crashes = 0 WHERE worker = :worker AND partition = :partition""")
        self.leave = text(f"""UPDATE {n.leases} SET worker = NULL, leased_until = NULL
            WHERE worker = :worker""")
        self.forget_worker = text(f"DELETE FROM {n.workers} WHERE worker = :worker")

        # Which leases are still those that deliveries began under; they stay so until the commit.
        held = sql.rows("held", {"partition": "smallint", "token": "bigint"})
        self.fence = text(f"""SELECT l.partition, l.token FROM {n.leases} l
            WHERE EXISTS (SELECT 1 FROM {held}
                WHERE held.partition = l.partition AND held.token = l.token)
            ORDER BY l.partition {sql.share_lock}""")


class ClaimStatements:
    """What may leave, read without a lock; what may not is met once."""

    def __init__(self, n: Names, sql: Flavour) -> None:
        partitions = sql.rows("partitions", {"partition": "smallint"})
        free = sql.not_among("r.position", "held")
        ready = f"""r.ready AND {free}
            AND {within_partition("r.position")} LIMIT :depth"""
        due = f"""r.due_at <= {sql.now} AND {free}
            AND r.partition = partitions.partition ORDER BY r.due_at, r.position LIMIT :depth"""
        columns = record_columns(sql)
        gated = f"EXISTS (SELECT 1 FROM {n.blocked}) AS gated"

        # The first records of each partition, and those whose time has come; and whether any key
        # is blocked at all, which spares most claims the next statement.
        self.window = text(f"""
            SELECT {columns}, {gated}, 0 AS was_due FROM {sql.each(partitions, n.records, ready)}
            UNION ALL
            SELECT {columns}, {gated}, 1 AS was_due FROM {sql.each(partitions, n.records, due)}""")

        # In a statement of its own: joined to the window, the planner would sort the backlog.
        keys = sql.rows("keys", KEY)
        gate = """r.aggregate_type = keys.aggregate_type
            AND r.aggregate_id = keys.aggregate_id LIMIT 1"""
        self.gates = text(f"""SELECT w.aggregate_type, w.aggregate_id, w.position
            FROM {sql.each(keys, n.blocked, gate)}""")

        # The same, kept as they are until the commit.
        self.lock_gates = text(f"""SELECT b.aggregate_type, b.aggregate_id, b.position
            FROM {n.blocked} b WHERE EXISTS (SELECT 1 FROM {keys}
                WHERE b.aggregate_type = keys.aggregate_type
                AND b.aggregate_id = keys.aggregate_id)
            ORDER BY b.aggregate_type, b.aggregate_id {sql.share_lock}""")

        # Far ahead, so that each follower is met once, and no key has to be passed one by one.
        ahead = f"r.ready AND {within_partition('r.position')} LIMIT :ahead"
        gates = sql.rows("gates", GATE)
        self.park = text(
            f"""UPDATE {n.records} SET ready = false WHERE position {
                sql.within(f'''SELECT w.position FROM {sql.each(partitions, n.records, ahead)}
            JOIN {gates} ON coalesce(w.aggregate_type, '') = gates.aggregate_type
                AND w.aggregate_id = gates.aggregate_id AND w.position > gates.position''')
            }"""
        )
        # That they are done was said by hand; they are in line all the same.
        self.take_out = text(f"""UPDATE {n.records} SET ready = false, due_at = NULL
            WHERE position {sql.among("positions")} AND status <> 'pending'""")
        # A delayed one, whose time has come while its key is blocked.
        self.park_due = text(f"""UPDATE {n.records} SET due_at = NULL, ready = false
            WHERE position {sql.among("positions")} AND due_at IS NOT NULL""")


class SettleStatements:
    """How deliveries went, and which keys wait."""

    def __init__(self, n: Names, sql: Flavour) -> None:
        # A fact, whoever holds the lease now.
        self.delivered = text(f"""UPDATE {n.records} SET status = 'published', ready = false,
            due_at = NULL, error_message = NULL, updated_at = {sql.now},
            published_at = coalesce(published_at, {sql.now})
            WHERE position {sql.among("positions")}""")
        self.delete = text(f"DELETE FROM {n.records} WHERE position {sql.among('positions')}")

        due = f"CASE WHEN refused.delay IS NOT NULL THEN {sql.after('refused.delay')} END"
        self.refuse = text(f"""UPDATE {n.records} SET status = refused.outcome, ready = false,
            retry_count = refused.attempts, due_at = {due},
            error_message = coalesce(refused.reason, error_message),
            updated_at = {sql.now} FROM {sql.rows("refused", ATTEMPT)}
            WHERE position = refused.at AND status <> 'published'""")

        gates = sql.rows("gates", GATE)
        self.hold = text(f"""INSERT INTO {n.blocked} (aggregate_type, aggregate_id, position)
            SELECT gates.aggregate_type, gates.aggregate_id, gates.position FROM {gates}
            WHERE EXISTS (SELECT 1 FROM {n.records} r
                WHERE r.position = gates.position AND r.status <> 'published')
            ON CONFLICT (aggregate_type, aggregate_id) DO UPDATE SET position = excluded.position
        """)

        # Gates, locked, and whether the record that each waits for is through.
        keys = sql.rows("keys", KEY)
        same = "b.aggregate_type = keys.aggregate_type AND b.aggregate_id = keys.aggregate_id"
        lock = sql.lock and f"{sql.lock} OF b"
        self.lock_gates = text(f"""SELECT b.aggregate_type, b.aggregate_id, b.position, NOT EXISTS (
                SELECT 1 FROM {n.records} r WHERE r.position = b.position
                AND r.status <> 'published') AS through
            FROM {keys} JOIN {n.blocked} b ON {same}
            ORDER BY b.aggregate_type, b.aggregate_id {lock}""")

        # The next of each key that have waited behind its gate.
        waiting = f"""{PARKED} AND r.aggregate_id = keys.aggregate_id
            AND coalesce(r.aggregate_type, '') = keys.aggregate_type
            ORDER BY r.position LIMIT :batch"""
        self.followers = text(f"""UPDATE {n.records} SET ready = true, updated_at = {sql.now}
            WHERE position {
            sql.within(f"SELECT w.position FROM {sql.each(keys, n.records, waiting)}")
        }
            RETURNING position, coalesce(aggregate_type, '') AS aggregate_type, aggregate_id""")

        same_gate = (
            "b.aggregate_type = gates.aggregate_type AND b.aggregate_id = gates.aggregate_id"
        )
        self.move_gates = text(f"""UPDATE {n.blocked} AS b SET position = gates.position
            FROM {gates} WHERE {same_gate}""")
        self.open_gates = text(f"""DELETE FROM {n.blocked} AS b
            WHERE EXISTS (SELECT 1 FROM {keys} WHERE {same})""")


class CareStatements:
    """What people and the cleaner do."""

    def __init__(self, n: Names, sql: Flavour) -> None:
        # So many records in order, whether they are old, and whether they may go.
        old = sql.after(":age")
        self.oldest = text(f"""SELECT position, created_at < {old} AS is_old,
            status = 'published' AND published_at < {old} AS may_go
            FROM {n.records} WHERE position > :after ORDER BY position LIMIT :limit""")
        self.clean_workers = text(
            f"DELETE FROM {n.workers} WHERE seen_until < {sql.after('-86400')}"
        )

        held = f"SELECT count(*) FROM {n.records} r WHERE {HELD}"
        self.counts = text(f"""SELECT
            (SELECT count(*) FROM {n.records} WHERE ready) AS ready,
            (SELECT count(*) FROM {n.records} WHERE due_at IS NOT NULL) AS waiting,
            ({held} AND r.status = 'pending' AND r.due_at IS NULL) AS held,
            ({held} AND r.status = 'failed') AS failed,
            (SELECT count(*) FROM {n.blocked}) AS blocked_keys,
            (SELECT min(created_at) FROM {n.records} WHERE ready) AS oldest_ready,
            {sql.now} AS now""")

        wanted = sql.within(f"SELECT id FROM {sql.rows('ids', {'id': 'uuid'})}")
        self.find = text(f"""SELECT position, coalesce(aggregate_type, '') AS aggregate_type,
            aggregate_id, status, due_at FROM {n.records}
            WHERE id {wanted} AND status <> 'published' ORDER BY position {sql.lock}""")
        self.retry = text(f"""UPDATE {n.records} SET status = 'pending', retry_count = 0,
            ready = false, due_at = {sql.now}, updated_at = {sql.now}
            WHERE position {sql.among("positions")}""")

        # Gates whose record is gone or through, so that nobody else would open them.
        self.stale_gates = text(f"""SELECT b.aggregate_type, b.aggregate_id FROM {n.blocked} b
            WHERE NOT EXISTS (SELECT 1 FROM {n.records} r
                WHERE r.position = b.position AND r.status <> 'published') LIMIT 1000""")
        # In a partition that nobody serves.
        astray = "(partition < 0 OR partition >= :partitions) LIMIT 1000"
        columns = f"position, {sql.text('aggregate_type')} AS aggregate_type"
        columns += f", {sql.text('aggregate_id')} AS aggregate_id"
        self.astray = text(f"""SELECT * FROM (SELECT {columns}
            FROM {n.records} WHERE ready AND {astray}) AS ready
            UNION SELECT * FROM (SELECT {columns}
            FROM {n.records} WHERE due_at IS NOT NULL AND {astray}) AS due""")
        # At a time that never comes, because it is none.
        self.timeless = text(f"""UPDATE {n.records} SET due_at = {sql.now}
            WHERE due_at IS NOT NULL AND NOT ({sql.is_time("due_at")})""")
        homes = sql.rows("homes", {"at": "bigint", "home": "smallint"})
        self.bring_home = text(f"""UPDATE {n.records} SET partition = homes.home FROM {homes}
            WHERE position = homes.at""")
        # Held by nobody, as failed ones are that were set to pending by hand: the first of a key.
        self.orphans = text(f"""SELECT min(r.position) AS position, r.aggregate_id,
            coalesce(r.aggregate_type, '') AS aggregate_type
            FROM {n.records} r LEFT JOIN {n.blocked} b ON b.aggregate_id = r.aggregate_id
                AND b.aggregate_type = coalesce(r.aggregate_type, '')
            WHERE {PARKED} AND (b.position IS NULL OR b.position = r.position)
            GROUP BY coalesce(r.aggregate_type, ''), r.aggregate_id,
                CASE WHEN r.aggregate_id IS NULL THEN r.position END LIMIT 1000""")
        self.due_now = text(f"""UPDATE {n.records} SET due_at = {sql.now}, ready = false
            WHERE position {sql.among("positions")}""")
