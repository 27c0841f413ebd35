"""UUIDs of version 7: they sort by time, so that their index grows at its end."""

import os
import time
from uuid import UUID


def uuid7() -> UUID:
    """Make a UUID of version 7 (RFC 9562): 48 bits of milliseconds, then random ones."""
    milliseconds = time.time_ns() // 1_000_000
    bits = milliseconds << 80 | int.from_bytes(os.urandom(10))
    bits = bits & ~(0xF << 76) | 0x7 << 76
    return UUID(int=bits & ~(0x3 << 62) | 0x2 << 62)
