"""Settings that are wrong end the process with a line for each."""

from tests.examples.accounts.conftest import FACTORY
from tests.support.command import Commands


async def test_a_mistake_is_a_line_at_the_start(commands: Commands) -> None:
    wrong = {"DATABASE_URL": "postgresql://app:hunter2@db/accounts", "OUTBOX_LEASE": "0"}
    command = commands.python("-m", "uvicorn", "--factory", FACTORY, **wrong)
    assert await command.code() == 1
    first, *lines = command.err.splitlines()
    assert first == "accounts cannot start:"
    assert [line.strip().partition(":")[0] for line in lines] == ["DATABASE_URL", "OUTBOX_LEASE"]
    assert "hunter2" not in command.err
