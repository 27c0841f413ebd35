"""Passwords, races and malformed requests."""

import asyncio
from collections import Counter

import httpx
import pytest
from argon2 import PasswordHasher

from tests.examples.accounts.database import Database
from tests.examples.accounts.people import PASSWORD, new_email, sign_up, sign_up_body
from tests.support.page import files_of_page
from tests.support.server import Server

JSON = {"Content-Type": "application/json"}


async def test_the_password_is_hashed_and_is_nowhere_else(
    client: httpx.AsyncClient, server: Server, database: Database
) -> None:
    account_id = (await sign_up(client))["account_id"]
    [[stored]] = database.rows(
        "SELECT password_hash FROM accounts WHERE account_id = %s", account_id
    )
    assert PasswordHasher().verify(stored, PASSWORD)
    record = database.record(account_id).text
    for secret in (PASSWORD, stored):
        assert secret not in record
        assert secret not in server.command.err + server.command.out


async def test_of_many_at_the_same_moment_one_gets_the_address(
    client: httpx.AsyncClient, database: Database
) -> None:
    email = new_email()
    posts = [client.post("/sign-up", json=sign_up_body(email)) for _ in range(8)]
    answers = Counter([answer.status_code for answer in await asyncio.gather(*posts)])
    assert answers == {201: 1, 409: 7}
    assert database.count("accounts", "email", email) == 1
    assert database.count("outbox", "payload->>'email'", email) == 1


def told_of(email: str, password: str) -> str:
    """Write a body as it goes over the wire: JSON may escape what is no character."""
    return f'{{"email": "{email}", "password": "{password}"}}'


RUBBISH = {
    "a short password": (told_of("bob@example.com", "short"), "12 to 128 characters"),
    "a long password": (told_of("bob@example.com", "twelve " * 20), "12 to 128 characters"),
    "a weak password": (told_of("bob@example.com", "a" * 20), "5 different characters"),
    "a NUL in it": (told_of("bob@example.com", r"twelve\u0000letters"), "can be typed"),
    "a surrogate in it": (told_of("bob@example.com", r"twelve\ud800letters"), "can be typed"),
    "no address": (told_of("bob", "twelve letters"), "not a valid email"),
    "an address with NUL": (told_of(r"b\u0000b@example.com", "twelve letters"), "U+0000"),
    "an address with a surrogate": (told_of(r"b\ud800b@example.com", "twelve letters"), "U+D800"),
    "no password": ('{"email": "bob@example.com"}', "Field required"),
    "another field": (r'{"\ud800": 1}', "Field required"),
    "a list": ("[]", "dictionary"),
    "no JSON": ("twelve letters", "JSON decode error"),
}
UNREADABLE = {"too deep": b"[" * 100_000, "not UTF-8": b'"\xff"', "too many digits": b"1" * 5000}


@pytest.mark.parametrize(("body", "told"), RUBBISH.values(), ids=RUBBISH)
async def test_rubbish_is_refused_and_not_repeated(
    client: httpx.AsyncClient, body: str, told: str
) -> None:
    answer = await client.post("/sign-up", content=body, headers=JSON)
    assert answer.status_code == 422
    assert told in answer.text
    assert "twelve" not in answer.text


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
async def test_what_cannot_be_read_is_refused(client: httpx.AsyncClient, body: bytes) -> None:
    answer = await client.post("/sign-up", content=body, headers=JSON)
    assert answer.status_code == 400
    assert answer.json() == {"detail": "There was an error parsing the body"}


async def test_swagger_ui_needs_no_other_host(client: httpx.AsyncClient) -> None:
    assert await files_of_page(client, "/docs") == {
        "/openapi.json",
        "/static-offline-docs/favicon.png",
        "/static-offline-docs/swagger-ui-bundle.js",
        "/static-offline-docs/swagger-ui.css",
    }
