"""Requests and their answers."""

from uuid import uuid4

import httpx
import pytest
from accounts_api import PASSWORD, new_email, sign_up


async def test_an_account_can_be_read_and_shows_no_hash(client: httpx.AsyncClient) -> None:
    email = new_email()
    account = await sign_up(client, email.upper())
    assert account == {"account_id": account["account_id"], "email": email, "role": "user"}
    answer = await client.get(f"/accounts/{account['account_id']}")
    assert (answer.status_code, answer.json()) == (200, account)


@pytest.mark.parametrize("written", ["{}", "  {}\t"])
async def test_an_address_has_one_account_however_it_is_written(
    client: httpx.AsyncClient, written: str
) -> None:
    email = new_email()
    await sign_up(client, email)
    body = {"email": written.format(email.upper()), "password": PASSWORD}
    answer = await client.post("/sign-up", json=body)
    assert answer.status_code == 409
    assert answer.json() == {"detail": f"There is an account for {email} already."}


@pytest.mark.parametrize("what", ["accounts", "profiles"])
async def test_what_is_not_there_is_not_found(client: httpx.AsyncClient, what: str) -> None:
    unknown = uuid4()
    answer = await client.get(f"/{what}/{unknown}")
    assert answer.status_code == 404
    assert str(unknown) in answer.json()["detail"]
    assert (await client.get(f"/{what}/%00")).status_code == 422
