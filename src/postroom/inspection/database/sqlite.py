"""The file of a SQLite database: its mode, its size, its file system, its integrity."""

import asyncio
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import text
from sqlalchemy.exc import DatabaseError

from postroom.inspection.reading import Reader

MOUNTS: Final = Path("/proc/mounts")
ERRORS_SHOWN: Final = 3
DAMAGED: Final = ("SQLITE_CORRUPT", "SQLITE_NOTADB")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """A database file."""

    path: str
    """Empty for a database in memory."""
    version: tuple[int, ...]
    """Of SQLite."""
    journal_mode: str
    bytes: int
    free_bytes: int
    """Bytes in the file that hold nothing."""
    wal_bytes: int
    """The size of the write-ahead log beside the file."""
    file_system: str
    """Its type; empty if that cannot be told."""
    is_writable: bool
    """Whether this user may write to the file and its folder."""


async def read_file(reader: Reader) -> FileFacts:
    """Return the facts about the file."""
    pragmas = ("journal_mode", "page_count", "page_size", "freelist_count")
    async with reader.ask("the database file") as run:
        values = {each: (await run(text(f"PRAGMA {each}")))[0][0] for each in pragmas}
        [[_, _, path], *_] = await run(text("PRAGMA database_list"))
    file = Path(path)
    wal = file.with_name(f"{file.name}-wal")
    return FileFacts(
        path=path,
        version=sqlite3.sqlite_version_info,
        journal_mode=values["journal_mode"],
        bytes=values["page_count"] * values["page_size"],
        free_bytes=values["freelist_count"] * values["page_size"],
        wal_bytes=wal.stat().st_size if path and wal.exists() else 0,
        file_system=file_system(file) if path else "",
        is_writable=not path or (os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)),
    )


async def read_errors(reader: Reader) -> tuple[str, ...]:
    """Return what SQLite finds wrong with the file, the first errors only."""
    try:
        async with reader.ask("the soundness of the file") as run:
            rows = await run(text(f"PRAGMA quick_check({ERRORS_SHOWN})"))
    except DatabaseError as error:
        if getattr(error.orig, "sqlite_errorname", "") not in DAMAGED:
            raise
        return (str(error.orig),)
    return tuple(str(row[0]) for row in rows if row[0] != "ok")


async def is_locked(path: str, seconds: float) -> bool:
    """Return whether another program holds the write lock for so many seconds."""
    return await asyncio.to_thread(_is_locked, path, seconds)


def _is_locked(path: str, seconds: float) -> bool:
    connection = sqlite3.connect(path, timeout=seconds, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname not in ("SQLITE_BUSY", "SQLITE_LOCKED"):
            raise
        return True
    finally:
        connection.close()
    return False


def file_system(path: Path, mounts: Path = MOUNTS) -> str:
    """Return the type of the file system that holds a path: ext4, nfs4, …"""
    try:
        lines = [line.split() for line in mounts.read_text(encoding="utf-8").splitlines()]
    except OSError:  # not Linux
        return ""
    found = path.resolve()
    holding = [(point, kind) for _, point, kind, *_ in lines if found.is_relative_to(point)]
    return max(holding, key=lambda each: len(each[0]), default=("", ""))[1]
