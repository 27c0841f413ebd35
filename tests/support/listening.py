"""A server in a test's own process, which leaves nothing open when it ends."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

HOST = "127.0.0.1"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(serve: Serve, port: int = 0) -> AsyncIterator[int]:
    """Listen on a port of this machine, any by default; cancel what serves when the block ends."""
    tasks: set[asyncio.Task[None]] = set()

    async def until_its_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(until_its_end(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, HOST, port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        # A connection may be accepted and not yet handed over. Nobody else would close it.
        while arriving := [each for each in asyncio.all_tasks() if _accepts(each)]:
            await asyncio.wait(arriving)
        await asyncio.sleep(0)  # each has begun, and can be cancelled
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


def _accepts(task: asyncio.Task[object]) -> bool:
    return getattr(task.get_coro(), "__name__", "") == "_accept_connection2"
