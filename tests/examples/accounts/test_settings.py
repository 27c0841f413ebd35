"""Settings that are wrong are named, and those that are secret are not shown."""

from typing import Any

import pytest
from pydantic import ValidationError

from accounts.settings import Settings
from tests.examples.accounts.conftest import FACTORY
from tests.support.command import Commands

URL = "postgresql+asyncpg://app:hunter2@db/accounts"


async def test_a_mistake_is_a_line_at_the_start(commands: Commands) -> None:
    wrong = {"DATABASE_URL": "postgresql://app:hunter2@db/accounts", "OUTBOX_LEASE": "0"}
    command = commands.python("-m", "uvicorn", "--factory", FACTORY, **wrong)
    assert await command.code() == 1
    first, *lines = command.err.splitlines()
    assert first == "accounts cannot start:"
    assert [line.strip().partition(":")[0] for line in lines] == ["DATABASE_URL", "OUTBOX_LEASE"]
    assert "hunter2" not in command.err


def test_a_password_is_not_shown() -> None:
    settings = Settings(database_url=URL)
    assert settings.database_url == URL
    assert "hunter2" not in repr(settings) + str(settings)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"database_url": "postgresql://app:hunter2@db/accounts"}, "postgresql+asyncpg://"),
        ({"database_url": "postgresql+asyncpg://app:x@db:hunter2/accounts"}, "not the URL"),
        ({"database_url": "hunter2"}, "not the URL"),
        ({"outbox_lease": 0}, "outbox_lease"),
        ({"outbox_poll_interval": "inf"}, "outbox_poll_interval"),
    ],
)
def test_what_is_wrong_is_named_and_not_repeated(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(**wrong)
    assert told in str(caught.value)
    assert "hunter2" not in str(caught.value)
