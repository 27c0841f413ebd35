"""Starting it in an environment where something is missing or wrong."""

from tests.examples.family.conftest import APP
from tests.support.command import Commands
from tests.support.migrated import empty_database


async def test_what_is_missing_or_wrong_is_named_and_not_shown(commands: Commands) -> None:
    command = commands.python("-m", "uvicorn", "--factory", APP, DATABASE_URL="mysql://a:b@c/d")
    assert await command.code() == 1
    assert command.err.splitlines() == [
        "family cannot start:",
        r"  DATABASE_URL: String should match pattern '^postgresql(\+\w+)?://'",
        "  RABBITMQ_URL: Field required",
    ]


async def test_without_its_tables_it_says_what_to_do(commands: Commands, rabbitmq_url: str) -> None:
    with empty_database("family") as url:
        urls = {"DATABASE_URL": url, "RABBITMQ_URL": rabbitmq_url}
        command = commands.python("-m", "uvicorn", "--factory", APP, "--port", "0", **urls)
        assert await command.code() != 0
    assert "no schema `auth`" in command.err
    assert "Create it with `alembic upgrade head`" in command.err
