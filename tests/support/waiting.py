"""Bounded waits for a condition: no test sleeps, and all share one generous bound."""

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable

import pytest

FULL = os.environ.get("POSTROOM_CHAOS") == "full"
"""Whether this is the long run, `make chaos`."""
PATIENCE = 60.0 * float(os.environ.get("POSTROOM_TEST_PATIENCE", "1"))
"""Seconds that anything may take, on a busy machine too."""
TEST_LIMIT = 5 * PATIENCE
"""Seconds after which pytest-timeout ends a test, and names it."""

Condition = Callable[[], object | Awaitable[object]]


async def happens(condition: Condition, *, within: float) -> bool:
    """Tell whether a condition becomes true in so many seconds."""
    begun = time.monotonic()
    while True:
        holds = condition()
        if await holds if inspect.isawaitable(holds) else holds:
            return True
        waited = time.monotonic() - begun
        if waited >= within:
            return False
        await asyncio.sleep(step(waited))


async def eventually(condition: Condition, what: str = "", *, within: float = PATIENCE) -> None:
    """Wait for a condition, sync or async; fail when it takes too long."""
    if not await happens(condition, within=within):
        pytest.fail(f"not within {within:g} s: {what}".removesuffix(": "))


def step(waited: float) -> float:
    """Give the seconds to the next look: a tenth of the wait so far, 5 to 100 ms."""
    return min(max(waited / 10, 0.005), 0.1)
