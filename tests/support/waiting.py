"""A bounded wait for a condition, instead of a sleep."""

import asyncio
from collections.abc import Callable


async def eventually(condition: Callable[[], object], *, within: float = 20.0) -> None:
    """Wait until something is so; fail when it takes too long."""
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110  it is others that change it
            await asyncio.sleep(0.005)
