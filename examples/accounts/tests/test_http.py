"""Requests and their answers."""

import asyncio
from collections import Counter
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


async def test_of_many_at_the_same_moment_one_gets_the_address(client: httpx.AsyncClient) -> None:
    body = {"email": new_email(), "password": PASSWORD}
    answers = await asyncio.gather(*(client.post("/sign-up", json=body) for _ in range(4)))
    assert Counter(answer.status_code for answer in answers) == {201: 1, 409: 3}


RUBBISH = {
    "a weak password": (b'{"email": "bob@example.com", "password": "twelve"}', 422),
    "a surrogate": (rb'{"email": "b\ud800b@example.com", "password": "twelve letters"}', 422),
    "no address": (b'{"email": "bob", "password": "twelve letters"}', 422),
    "no object": (b'["twelve"]', 422),
    "no JSON": (b"twelve letters", 422),
    "not UTF-8": (b'"\xff twelve"', 400),
    "too deep": (b"[" * 100_000, 400),
}


@pytest.mark.parametrize(("body", "status"), RUBBISH.values(), ids=RUBBISH)
async def test_rubbish_is_refused_and_not_repeated(
    client: httpx.AsyncClient, body: bytes, status: int
) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await client.post("/sign-up", content=body, headers=headers)
    assert answer.status_code == status
    assert "twelve" not in answer.text
