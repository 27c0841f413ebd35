"""What an operator sees who starts an application without its tables."""

import pytest

from tests.examples.applications import NO_BROKER
from tests.examples.migrated import empty_database
from tests.support.command import Commands

pytestmark = pytest.mark.extended


@pytest.mark.parametrize(
    ("application", "missing"),
    [
        ("accounts", "no table `outbox`"),
        ("family", "no schema `auth`"),
        ("messaging", "no table `outbox_events`"),
    ],
)
async def test_without_tables_it_says_which_and_ends(
    application: str, missing: str, commands: Commands
) -> None:
    words = ["-m", "uvicorn", "--factory", f"{application}.main:create_app", "--port", "0"]
    with empty_database(application) as url:
        command = commands.python(*words, DATABASE_URL=url, RABBITMQ_URL=NO_BROKER)
        assert await command.code() != 0
    assert missing in command.err
