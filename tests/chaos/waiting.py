"""Waiting for something to become true, with a bound: never for time to pass."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable

import pytest

FULL = os.environ.get("POSTROOM_CHAOS") == "full"
"""Whether this is the long run."""
PATIENCE = 300.0 if FULL else 45.0
STEP = 0.02

Condition = Callable[[], bool | Awaitable[bool]]


async def happens(condition: Condition, *, within: float) -> bool:
    """Tell whether something becomes true in so many seconds."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        holds = condition()
        if holds if isinstance(holds, bool) else await holds:
            return True
        await asyncio.sleep(STEP)
    return False


async def until(condition: Condition, what: str, *, within: float = PATIENCE) -> None:
    """Wait for something, or fail."""
    if not await happens(condition, within=within):
        pytest.fail(f"not within {within:.0f} s: {what}")
