"""The session of a request or of an event handler, and the transaction in it."""

from collections.abc import Awaitable, Callable
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession


class MainAsyncSession(AsyncSession):
    """A session of the main database: a type of its own, so that another database can be added.

    Functions in `after_commit` are called once, when the transaction has been committed.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.after_commit: list[Callable[[], Awaitable[None]]] = []

    async def commit(self) -> None:
        await super().commit()
        while self.after_commit:
            await self.after_commit.pop(0)()

    async def rollback(self) -> None:
        self.after_commit.clear()
        await super().rollback()


class SqlAlchemyUnitOfWork:
    """A `UnitOfWork` over the session that repositories and the event dispatcher write to."""

    def __init__(self, session: MainAsyncSession) -> None:
        self._session = session

    async def commit(self) -> None:
        await self._session.commit()
