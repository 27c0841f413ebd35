"""Judges a SQLite database file. Pure: no I/O."""

from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Final

from postroom.doctor.finding import Finding, note, ok, problem
from postroom.doctor.tables import megabytes
from postroom.inspection.database.sqlite import FileFacts

OLDEST_VERSION: Final = (3, 35)
"""The first version with RETURNING."""
REMOTE: Final = ("nfs", "cifs", "smb", "9p", "fuse.sshfs", "ceph", "glusterfs", "fuse.glusterfs")
MUCH: Final = 64 * 1024 * 1024


def judge_file(file: FileFacts) -> Iterator[Finding]:
    """Judge a file's mode, its place and its size."""
    if file.version < OLDEST_VERSION:
        version = ".".join(map(str, file.version))
        yield problem(f"SQLite {version} is too old: 3.35 is needed", "Upgrade Python.")
    if file.journal_mode != "wal":
        yield note(
            f"the journal mode is {file.journal_mode}: readers and the writer wait for each other."
            " A worker changes that when it starts",
            f"sqlite3 {quote(file.path)} 'PRAGMA journal_mode = wal'",
        )
    if file.file_system.startswith(REMOTE):
        yield problem(
            f"{file.path} is on a network file system ({file.file_system}): locks of SQLite do"
            " not work there, and the file may be damaged",
            "Move the file to a local disk, or use PostgreSQL.",
        )
    if not file.is_writable:
        yield problem(
            f"this user may not write to {file.path}, or not to its folder",
            f"chmod u+w {quote(file.path)}  # and its folder",
        )
    yield from _sizes(file)


def _sizes(file: FileFacts) -> Iterator[Finding]:
    if file.free_bytes > max(MUCH, file.bytes / 2):
        yield note(
            f"{megabytes(file.free_bytes)} of {megabytes(file.bytes)} are empty",
            f"sqlite3 {quote(file.path)} VACUUM  # while no worker runs",
        )
    if file.wal_bytes > MUCH:
        yield note(
            f"the write-ahead log has {megabytes(file.wal_bytes)}: a reader that never ends holds"
            " back its checkpoint",
            f"sqlite3 {quote(file.path)} 'PRAGMA wal_checkpoint(TRUNCATE)'",
        )
    yield ok(f"{file.path or 'in memory'}, {megabytes(file.bytes)}, {file.journal_mode} mode")


def judge_errors(errors: Sequence[str], path: str) -> Iterator[Finding]:
    """Judge whether the file is sound."""
    for each in errors:
        yield problem(
            f"the file is damaged: {each}",
            f"sqlite3 {quote(path)} .recover | sqlite3 recovered.db",
        )
    if not errors:
        yield ok("the file is sound")


def judge_lock(locked: bool, seconds: float) -> Iterator[Finding]:
    """Judge whether the write lock can be had."""
    if locked:
        yield problem(
            f"another program has held the write lock for {seconds:g} s: nobody else can capture"
            " or deliver",
            "Find it: fuser FILE, or lsof FILE. It has a transaction open.",
        )
    else:
        yield ok("nobody holds the write lock for long")
