"""A bounded wait for a condition, so that no test sleeps for a fixed time."""

import asyncio
import time
from collections.abc import Awaitable, Callable

PATIENCE = 60.0
"""Seconds that anything may take, on a busy machine too."""


async def eventually(condition: Callable[[], Awaitable[object]], what: str) -> None:
    """Wait until a condition holds; fail after PATIENCE."""
    give_up = time.monotonic() + PATIENCE
    while not await condition():
        assert time.monotonic() < give_up, f"not within {PATIENCE:g} s: {what}"
        await asyncio.sleep(0.02)
