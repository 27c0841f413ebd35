"""The port of a transaction."""

from typing import Protocol


class UnitOfWork(Protocol):
    """One transaction. What is not committed when its scope ends is rolled back."""

    async def commit(self) -> None: ...
