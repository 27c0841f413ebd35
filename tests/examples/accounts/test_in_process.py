"""EVENT_DISPATCH=in_process: handlers run in the request, and no record is saved."""

import pytest

from tests.examples.accounts.conftest import FACTORY
from tests.examples.accounts.database import Database
from tests.examples.accounts.people import new_email, sign_up, sign_up_body
from tests.support.command import Commands
from tests.support.server import Server, serve


@pytest.fixture
def in_process(commands: Commands, database_url: str) -> Server:
    return serve(commands, FACTORY, DATABASE_URL=database_url, EVENT_DISPATCH="in_process")


@pytest.mark.requirement("A19")
async def test_the_same_handlers_run_before_the_answer(
    in_process: Server, database: Database
) -> None:
    async with in_process.client() as client:
        account_id = (await sign_up(client))["account_id"]
        assert database.profiles(account_id) == 1
        assert f"account {account_id} was created" in in_process.command.err
        assert database.count("outbox", "aggregate_id", account_id) == 0
        assert (await client.get("/health/ready")).json()["relay"] is None
    await in_process.command.stop()
    assert "postroom: delivers" not in in_process.command.err
    assert "Application shutdown complete" in in_process.command.err
    assert "Traceback" not in in_process.command.err


@pytest.mark.requirement("B6")
async def test_the_effect_of_a_handler_that_fails_is_lost(
    in_process: Server, database: Database
) -> None:
    email = new_email()
    name = email.partition("@")[0]
    with database.refusing("profiles", f"NEW.display_name = '{name}'"):
        async with in_process.client() as client:
            account_id = (await sign_up(client, email))["account_id"]
    assert "create_profile failed to handle AccountCreated" in in_process.command.err
    assert f"account {account_id} was created" in in_process.command.err
    assert database.profiles(account_id) == 0
    assert database.count("outbox", "aggregate_id", account_id) == 0


async def test_no_handler_runs_when_the_commit_fails(
    in_process: Server, database: Database
) -> None:
    email = new_email()
    with database.refusing("accounts", f"NEW.email = '{email}'", at_commit=True):
        async with in_process.client() as client:
            answer = await client.post("/sign-up", json=sign_up_body(email))
    assert answer.status_code == 500
    assert database.count("profiles", "display_name", email.partition("@")[0]) == 0
