"""Judges the PostgreSQL server, and the sessions of others there. Pure: no I/O."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from postroom.doctor.finding import Finding, note, ok, problem
from postroom.doctor.tables import megabytes
from postroom.inspection import counted, duration
from postroom.inspection.database.server import (
    ConnectionLimit,
    PreparedFacts,
    ServerFacts,
    SlotFacts,
    TransactionFacts,
)

OLDEST_VERSION: Final = 12
"""The first version of PostgreSQL with every setting that the relay's connections have."""
SKEW_NOTED: Final = timedelta(seconds=2)
SKEW_LIMIT: Final = timedelta(minutes=1)
MUCH_WAL: Final = 2**30


def judge_server(server: ServerFacts) -> Iterator[Finding]:
    """Judge the version, and the settings that the relay's connections do not override."""
    version = int(server.settings["server_version_num"]) // 10_000
    if version < OLDEST_VERSION:
        yield problem(
            f"PostgreSQL {version} is too old: postroom needs {OLDEST_VERSION} or newer",
            "Upgrade the server.",
        )
    else:
        yield ok(f"PostgreSQL {server.settings['server_version'].split()[0]}, role {server.role}")
    if server.is_standby:
        yield problem(
            "this server is a standby: it takes no writes",
            "Connect to the primary: a host list with target_session_attrs=read-write finds it.",
        )
    yield from _setting_findings(server)


def _setting_findings(server: ServerFacts) -> Iterator[Finding]:
    settings, role = server.settings, server.role
    if settings.get("default_transaction_read_only") == "on" and not server.is_standby:
        yield problem(
            f"default_transaction_read_only is on for role {role}: nothing can be captured or"
            " delivered",
            f"ALTER ROLE {role} RESET default_transaction_read_only;",
        )
    if idle := int(settings.get("idle_session_timeout", "0")):
        yield problem(
            f"idle_session_timeout is {idle / 1000:g} s for role {role}: the server ends the"
            " connection that listens for commits, and pooled ones",
            f"ALTER ROLE {role} SET idle_session_timeout = 0;",
        )
    limit = int(settings.get("transaction_timeout", "0"))
    if 0 < limit < 10_000:
        yield note(
            f"transaction_timeout is {limit / 1000:g} s for role {role}: a busy server may end"
            " settlements before they are done",
            f"ALTER ROLE {role} SET transaction_timeout = 0;",
        )


def judge_clock(ahead: timedelta) -> Iterator[Finding]:
    """Judge how far the server's clock is from this machine's."""
    which = "ahead of" if ahead > timedelta() else "behind"
    text = f"the database's clock is {duration(abs(ahead))} {which} this machine's"
    remedy = "Synchronize both clocks by NTP: timedatectl set-ntp true"
    if abs(ahead) >= SKEW_LIMIT:
        yield problem(f"{text}: times in lists, and delayed events, are wrong by that", remedy)
    elif abs(ahead) >= SKEW_NOTED:
        yield note(f"{text}: times in lists are wrong by that", remedy)
    else:
        yield ok(text if ahead else "this machine and the database agree")


def judge_transactions(
    transactions: Sequence[TransactionFacts], role: str, limit: timedelta
) -> Iterator[Finding]:
    """Judge how long transactions of others have been open."""
    old = [each for each in transactions if each.age is not None and each.age >= limit]
    for each in old:
        yield _old_transaction(each)
    hidden = sum(each.age is None for each in transactions)
    if hidden:
        yield note(
            f"role {role} may not see how old {counted(hidden, 'transaction')} of other roles are",
            f"GRANT pg_read_all_stats TO {role};",
        )
    if not old and not hidden:
        yield ok(f"none has been open for {duration(limit)} or more")


def _old_transaction(each: TransactionFacts) -> Finding:
    application = f" of {each.application}" if each.application else ""
    statement = f" Its last statement: {each.query}" if each.query else ""
    return problem(
        f"pid {each.pid}{application} (user {each.user}, {each.state}) has had a transaction open"
        f" for {duration(each.age or timedelta())}: vacuum keeps every row that died since."
        f"{statement}",
        f"SELECT pg_terminate_backend({each.pid});",
        "Against the next one: ALTER ROLE … SET idle_in_transaction_session_timeout = '5min';",
    )


def judge_prepared(prepared: Sequence[PreparedFacts], limit: timedelta) -> Iterator[Finding]:
    """Judge transactions that wait for COMMIT PREPARED."""
    old = [each for each in prepared if each.age >= limit]
    for each in old:
        name = each.name.replace("'", "''")
        yield problem(
            f"transaction {each.name!r} of {each.owner} was prepared {duration(each.age)} ago and"
            " not ended: vacuum keeps every row that died since",
            f"ROLLBACK PREPARED '{name}';",
            f"Or, if its coordinator has decided so: COMMIT PREPARED '{name}';",
        )
    if not old:
        yield ok("no prepared transaction is left open")


def judge_slots(slots: Sequence[SlotFacts]) -> Iterator[Finding]:
    """Judge replication slots that nobody reads."""
    unread = [each for each in slots if not each.active]
    for each in unread:
        name = each.name.replace("'", "''")
        text = (
            f"nobody reads the {each.kind} replication slot {each.name}: the server keeps"
            f" {megabytes(each.wal_bytes)} of WAL for it"
        )
        remedy = f"Start what reads it, or: SELECT pg_drop_replication_slot('{name}');"
        if each.holds_rows:
            yield problem(f"{text}, and vacuum keeps dead rows", remedy)
        elif each.wal_bytes >= MUCH_WAL:
            yield problem(f"{text}, until the disk is full", remedy)
        else:
            yield note(text, remedy)
    if not unread:
        yield ok(f"{counted(len(slots), 'slot')}, each in use" if slots else "none")


def judge_connections(
    limits: Sequence[ConnectionLimit], workers: int, per_worker: int
) -> Iterator[Finding]:
    """Judge the room for more connections. `per_worker`: how many a worker may open."""
    needed = workers * per_worker
    for each in limits:
        text = f"{each.used} of {each.limit} connections of {each.what} are in use"
        if each.limit - each.used < per_worker:
            yield problem(f"{text}: another worker may not be able to connect", _more(each))
        elif each.limit < needed:
            yield note(f"{text}; {counted(workers, 'worker')} may open up to {needed}", _more(each))
        else:
            yield ok(text)


def _more(limit: ConnectionLimit) -> str:
    match limit.what:
        case "the database":
            return "ALTER DATABASE … CONNECTION LIMIT -1;"
        case "the role":
            return "ALTER ROLE … CONNECTION LIMIT -1;"
    return f"ALTER SYSTEM SET max_connections = {2 * limit.limit};  -- needs a restart"
