"""From sign-up to profile, through faults that are real."""

import httpx
import pytest

from tests.examples.accounts.database import Database
from tests.examples.accounts.people import new_email, sign_up, sign_up_body
from tests.support.server import Server
from tests.support.waiting import eventually

LAST = {"Connection": "close"}
"""For a request that fails: uvicorn ends its connection, and the next one must not have it."""


@pytest.mark.requirement("A19")
async def test_a_profile_appears_by_itself(
    client: httpx.AsyncClient, server: Server, database: Database
) -> None:
    account = await sign_up(client, new_email("ann.lee"))
    account_id = account["account_id"]
    await eventually(lambda: database.is_delivered(account_id))
    answer = await client.get(f"/profiles/{account_id}")
    name = account["email"].partition("@")[0]
    assert answer.json() == {"account_id": account_id, "display_name": name}
    assert f"account {account_id} was created" in server.command.err
    assert account["email"] not in server.command.err


@pytest.mark.requirement("A5")
@pytest.mark.requirement("A19")
async def test_account_and_record_are_of_one_transaction(
    client: httpx.AsyncClient, database: Database
) -> None:
    with database.holding_up("UPDATE", "outbox"):  # the relay would write the row anew
        account_id = (await sign_up(client))["account_id"]
        of_account = "SELECT xmin::text FROM accounts WHERE account_id::text = %s"
        of_record = "SELECT xmin::text FROM outbox WHERE aggregate_id = %s"
        assert database.rows(of_account, account_id) == database.rows(of_record, account_id)
    await eventually(lambda: database.is_delivered(account_id))


@pytest.mark.requirement("A5")
@pytest.mark.requirement("A19")
@pytest.mark.parametrize("at_commit", [False, True], ids=["at the insert", "at the commit"])
@pytest.mark.parametrize(
    ("table", "column"), [("outbox", "payload->>'email'"), ("accounts", "email")]
)
async def test_a_rollback_leaves_neither_account_nor_record(
    client: httpx.AsyncClient, database: Database, table: str, column: str, at_commit: bool
) -> None:
    email = new_email()
    with database.refusing(table, f"(NEW.{column}) = '{email}'", at_commit=at_commit):
        answer = await client.post("/sign-up", json=sign_up_body(email), headers=LAST)
    assert answer.status_code == 500
    assert database.count("accounts", "email", email) == 0
    assert database.count("outbox", "payload->>'email'", email) == 0
    await sign_up(client, email)


@pytest.mark.requirement("A19")
async def test_a_handler_that_fails_is_counted_and_tried_again(
    client: httpx.AsyncClient, database: Database
) -> None:
    email = new_email()
    name = email.partition("@")[0]
    with database.refusing("profiles", f"NEW.display_name = '{name}'"):
        account_id = (await sign_up(client, email))["account_id"]
        await eventually(lambda: database.record(account_id).retry_count >= 2)
        assert database.record(account_id).status == "pending"
        assert database.profiles(account_id) == 0
    await eventually(lambda: database.is_delivered(account_id))
    assert database.profiles(account_id) == 1
    assert database.record(account_id).retry_count >= 2


async def test_connections_that_were_cut_are_made_anew(
    client: httpx.AsyncClient, database: Database
) -> None:
    before = (await sign_up(client))["account_id"]
    await eventually(lambda: database.is_delivered(before))
    database.cut_connections()
    after = (await sign_up(client))["account_id"]
    await eventually(lambda: database.is_delivered(after))
