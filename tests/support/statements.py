"""The statements that stores run, whatever the driver."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from postroom.database.database import Database


@contextmanager
def noted_statements() -> Iterator[list[str]]:
    """Note the statements of all stores for as long as the block lasts."""
    sent: list[str] = []
    run = Database._run

    async def noted(*args: Any, **values: Any) -> Sequence[Any]:
        sent.append(str(args[2]))
        return await run(*args, **values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "_run", noted)
        yield sent
