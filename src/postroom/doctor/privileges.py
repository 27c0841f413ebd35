"""Judges what the current role may do with the tables. Pure: no I/O."""

from collections.abc import Iterator, Mapping
from typing import Final

from postroom.doctor.finding import Finding, note, ok, problem
from postroom.inspection.database.privileges import (
    READ_POSITION,
    SEQUENCE,
    USAGE,
    Privileges,
)

READ: Final = "SELECT"
CAPTURE: Final = {"records": ("INSERT", READ_POSITION), SEQUENCE: (USAGE,)}
"""The INSERT takes the position from the sequence. Of several rows, SQLAlchemy reads it back."""
DELIVER: Final = {
    "records": (READ, "UPDATE", "DELETE"),
    "leases": (READ, "INSERT", "UPDATE"),
    "workers": (READ, "INSERT", "UPDATE", "DELETE"),
    "blocked_keys": (READ, "INSERT", "UPDATE", "DELETE"),
    "attempts": (READ, "INSERT", "DELETE"),
    "pauses": (READ, "UPDATE"),  # to lock a row
    "inbox": (READ, "INSERT", "UPDATE", "DELETE"),
}
OPERATE: Final = {
    "records": (READ, "UPDATE", "DELETE"),
    "leases": (READ,),
    "workers": (READ, "UPDATE"),  # to drain one
    "blocked_keys": (READ, "UPDATE", "DELETE"),
    "attempts": (READ, "DELETE"),
    "pauses": (READ, "INSERT", "DELETE"),
    "audit": (READ, "INSERT", "UPDATE"),
    "inbox": (READ, "DELETE"),
}
LOOK: Final = dict.fromkeys(OPERATE, (READ,))
Needs = Mapping[str, tuple[str, ...]]


def judge_privileges(privileges: Privileges) -> Iterator[Finding]:
    """Judge what the role may not do. A role for other work need not be able to deliver."""
    role = privileges.role
    if privileges.schema is not None:
        yield problem(
            f"role {role} may not use schema {privileges.schema}",
            f"GRANT USAGE ON SCHEMA {privileges.schema} TO {role};",
        )
        return
    lacks = {
        duty: grants
        for duty, needs in (("deliver", DELIVER), ("operate", OPERATE), ("capture", CAPTURE))
        if (grants := tuple(missing_grants(privileges, needs)))
    }
    has_other_work = _has_other_work(privileges)
    for duty, grants in lacks.items():
        finding = problem if duty == "deliver" and not has_other_work else note
        yield finding(f"role {role} may not {WORK[duty]}", *grants)
    if not lacks:
        yield ok(f"role {role} may capture, deliver and operate")


def _has_other_work(privileges: Privileges) -> bool:
    """Return whether a role is an application's, an operator's or a reader's, and no worker's."""
    if "UPDATE" in privileges.held.get("leases", ()):  # which only workers do
        return False
    return any(not any(missing_grants(privileges, work)) for work in (CAPTURE, OPERATE, LOOK))


WORK: Final = {
    "deliver": "do all that a worker does",
    "operate": "do all that operators' commands do (retry, skip, pause, drain, …)",
    "capture": "save events",
}


def missing_grants(privileges: Privileges, needs: Needs) -> Iterator[str]:
    """Write a GRANT for each table on which the role lacks something that it needs."""
    for kind, wanted in needs.items():
        held = privileges.held.get(kind)
        missing = [each for each in wanted if held is not None and each not in held]
        if missing:
            what = "SEQUENCE " if kind == SEQUENCE else ""
            name = privileges.names[kind]
            yield f"GRANT {', '.join(missing)} ON {what}{name} TO {privileges.role};"
