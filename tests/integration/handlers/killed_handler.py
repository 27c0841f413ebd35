"""A process whose handler is killed right after its commit: python -m … URL EVENT-ID."""

import asyncio
import os
import signal
import sys
from uuid import UUID

from sqlalchemy import NullPool
from sqlalchemy.ext.asyncio import create_async_engine

from tests.support.claims import claimed
from tests.support.note_handlers import Diary, MainAsyncSession, WriteNote, publisher_of_handlers
from tests.support.shop import AccountOpened


def kill(name: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def main(url: str, event_id: str) -> None:
    """Deliver the record, and never return."""
    engine = create_async_engine(url, poolclass=NullPool)
    diary = Diary(afterwards=kill)
    publisher = await publisher_of_handlers(engine, diary, WriteNote, session=MainAsyncSession)
    event = AccountOpened(event_id=UUID(event_id), account_id=UUID(event_id), email="a@b.com")
    await publisher.publish([claimed(event)])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
