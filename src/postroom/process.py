"""Names this process, so that another one on the same machine can know that it is dead.

Only a process of the same boot and the same namespaces can know. Where `/proc` does not say which
these are, as on macOS, or has the PIDs of another namespace, nobody does. A process that is stopped
(SIGSTOP) is alive.
"""

import os
import re
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
NAME: Final = re.compile(r":(\d+):([0-9a-f]{8})-([0-9a-f]+)-[0-9a-f]+\Z")
STATE, STARTED = 0, 19
"""Where `/proc/PID/stat` has them, after the name of the program."""


def process_name() -> str:
    """Return the part of a worker's name that tells its process from any other that ever ran."""
    pid = os.getpid()
    known = _place() and _started(pid)
    return f"{pid}:{_place()}-{known:x}-" if known else f"{pid}:"


def is_dead(worker: str) -> bool:
    """Return whether the process that a worker's name tells of has certainly ended."""
    name = NAME.search(worker)
    if name is None or name[2] != _place():
        return False
    return _started(int(name[1])) not in (None, int(name[3], 16))


def is_alive(worker: str) -> bool:
    """Return whether the process that a worker's name tells of certainly runs."""
    name = NAME.search(worker)
    if name is None or name[2] != _place():
        return False
    return _started(int(name[1])) == int(name[3], 16)


@cache
def _place() -> str | None:
    """Name this boot of this machine, and the namespaces in which PIDs and times are counted."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text()
        spaces = [(PROC / "self/ns" / each).readlink() for each in ("pid", "time")]
        pid_there = (PROC / "self").readlink().name
    except OSError:
        return None
    if pid_there != str(os.getpid()):
        return None
    return sha256(f"{boot} {spaces}".encode()).hexdigest()[:8]


def _started(pid: int) -> int | None:
    """Return when a process has started, in ticks since the boot; 0 if it has ended.

    None if nobody may know: `/proc` can hide the processes of other users.
    """
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None if _exists(pid) else 0
    return 0 if fields[STATE] in "ZX" else int(fields[STARTED])


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
