"""Tokens: cookies that are forged, old or odd, and a limit to guessing, by a clock of the test."""

import base64
import hmac
import json
from typing import Any

import pytest
from starlette.responses import Response

from postroom.console.access import Role, Visitor, read_name
from postroom.console.tokens import (
    COOKIE,
    GUESSES,
    LASTS,
    MANY,
    REMEMBERED,
    Guesses,
    TokenAccess,
    client_of,
    signing_key,
)
from tests.unit.console.requests import request
from tests.unit.still_clock import StillClock

TOKEN, READER_TOKEN = "operators-token-4711", "readers-token-0815"


def make(clock: StillClock) -> TokenAccess:
    return TokenAccess(TOKEN, READER_TOKEN, clock=clock)


def given(access: TokenAccess, visitor: Visitor) -> str:
    """Return the cookie that a visitor is given."""
    response = Response()
    access.log_in(response, request(), visitor)
    return response.headers["set-cookie"].partition(";")[0].partition("=")[2]


def signed(content: Any, token: str = TOKEN) -> str:
    """Return a cookie with any content, as only somebody who has the token can make it."""
    written = content if isinstance(content, bytes) else json.dumps(content).encode()
    body = base64.urlsafe_b64encode(written).decode()
    key = signing_key(token)
    return f"{body}.{hmac.new(key, f'{COOKIE}:{body}'.encode(), 'sha256').hexdigest()}"


async def holder(access: TokenAccess, cookie: str) -> Visitor | None:
    return await access.visitor(request(cookie=f"{COOKIE}={cookie}"))


async def test_a_cookie_is_good_for_twelve_hours() -> None:
    clock = StillClock()
    access, ann = make(clock), Visitor(Role.OPERATOR, "ann")
    cookie = given(access, ann)
    clock.now += LASTS - 1
    assert await holder(access, cookie) == ann
    clock.now += 1
    assert await holder(access, cookie) is None


async def test_the_cookie_of_a_reader_is_not_one_of_an_operator() -> None:
    clock = StillClock()
    access = make(clock)
    until = clock() + 100
    forged = {"role": "operator", "name": "eve", "until": until}
    assert await holder(access, signed(forged, READER_TOKEN)) is None
    assert await holder(access, signed({**forged, "role": "reader"}, TOKEN)) is None
    assert await holder(access, signed(forged, "a-third-token-9999")) is None
    assert await holder(access, signed(forged, "")) is None
    cookie = given(access, Visitor(Role.READER, "eve"))
    assert (await holder(access, cookie)) == Visitor(Role.READER, "eve")


@pytest.mark.parametrize(
    "content",
    [
        *(None, [], {}, 7, "text", True, ["operator"], {"role": "operator"}),
        {"role": "operator", "until": 2e6},
        {"role": "operator", "name": "a", "until": "later"},
        {"role": "operator", "name": "a", "until": None},
        {"role": "operator", "name": "a", "until": [1]},
        {"role": ["operator"], "name": "a", "until": 2e6},
        {"role": None, "name": "a", "until": 2e6},
        *(b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"role": "operator", "until": 1e999}'),
    ],
    ids=lambda content: repr(content)[:40],
)
async def test_a_cookie_with_odd_content_is_refused(content: Any) -> None:
    assert await holder(make(StillClock()), signed(content)) is None


@pytest.mark.parametrize("cookie", ["", ".", "x.y", "é.é", "=.=", "a" * 100_000, "%00.%00"])
async def test_a_cookie_that_is_none_is_refused(cookie: str) -> None:
    assert await holder(make(StillClock()), cookie) is None


async def test_a_cookie_that_is_signed_with_the_token_itself_is_refused() -> None:
    body = signed({"role": "operator", "name": "a", "until": 2_000_000}).partition(".")[0]
    quick = hmac.new(TOKEN.encode(), f"{COOKIE}:{body}".encode(), "sha256").hexdigest()
    assert (
        await holder(make(StillClock()), f"{body}.{quick}") is None
    )  # else guesses would be cheap


async def test_a_name_of_another_type_is_a_text() -> None:
    clock = StillClock()
    for name in (["a"], {"a": 1}, 7, "x" * 1000):
        found = await holder(
            make(clock), signed({"role": "operator", "name": name, "until": clock() + 1})
        )
        assert found is not None
        assert isinstance(found.name, str)
        assert len(found.name) <= 100


def test_a_token_gives_its_role() -> None:
    access = make(StillClock())
    assert access.role_of(TOKEN) is Role.OPERATOR
    assert access.role_of(READER_TOKEN) is Role.READER
    for wrong in ("", TOKEN[:-1], TOKEN + " ", TOKEN.upper(), "é", "\0"):
        assert access.role_of(wrong) is None


def test_a_role_without_a_token_is_given_to_nobody() -> None:
    assert TokenAccess(None, READER_TOKEN).role_of("") is None
    assert TokenAccess(None, READER_TOKEN).role_of("None") is None


def test_space_around_a_token_does_not_matter() -> None:
    assert TokenAccess(f" {TOKEN}\n", None).role_of(TOKEN) is Role.OPERATOR


async def test_a_header_comes_before_a_cookie() -> None:
    access = make(StillClock())
    cookie = f"{COOKIE}={given(access, Visitor(Role.OPERATOR, 'ann'))}"
    asked = request(cookie=cookie, authorization=f"Bearer {READER_TOKEN}")
    assert await access.visitor(asked) == Visitor(Role.READER, "reader token")
    assert await access.visitor(request(cookie=cookie, authorization="Bearer wrong")) is None
    basic = request(cookie=cookie, authorization="Basic wrong")
    assert await access.visitor(basic) == Visitor(Role.OPERATOR, "ann")


def test_a_client_may_guess_five_times_in_a_minute() -> None:
    clock = StillClock()
    guesses = Guesses(clock)
    for _ in range(GUESSES):
        assert guesses.allowed("a")
        guesses.wrong("a")
    assert not guesses.allowed("a")
    assert guesses.allowed("b")
    guesses.wrong("a")  # is not counted: waiting helps
    clock.now += 60
    assert guesses.allowed("a")


def test_many_who_guess_lock_out_only_themselves() -> None:
    guesses = Guesses(StillClock())
    for number in range(10 * MANY):
        assert guesses.allowed(f"{number}")
        guesses.wrong(f"{number}")
        assert guesses.allowed(f"{number}") is (number + 1 < MANY)
    assert guesses.allowed("somebody else")


def test_guesses_do_not_fill_the_memory() -> None:
    guesses = Guesses(StillClock())
    guesses._wrong.extend((1e6, f"{number}") for number in range(REMEMBERED))
    guesses.wrong("one more")
    assert len(guesses._wrong) == REMEMBERED
    assert not guesses.allowed("one more")


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("198.51.100.7", "198.51.100.8", False),
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("::ffff:198.51.100.7", "::ffff:198.51.100.8", False),
        ("unix", "other", False),
    ],
)
def test_a_client_is_an_address_or_a_network_of_ipv6(one: str, other: str, is_same: bool) -> None:
    names = [client_of(request(client=each)) for each in (one, other)]
    assert (names[0] == names[1]) is is_same


def test_a_client_without_an_address_is_a_client_too() -> None:
    assert client_of(request(client=None)) == "unknown"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (" a \t b\n", "a b"),
        ("", None),
        (None, None),
        ("\0", None),
        ("x" * 200, "x" * 100),
        (7, "7"),
    ],
)
def test_a_name_for_the_audit_is_one_short_line(value: object, name: str | None) -> None:
    assert read_name(value) == name


@pytest.mark.parametrize(("scheme", "is_secure"), [("https", True), ("http", False)])
def test_a_cookie_stays_within_the_path_and_the_scheme(scheme: str, is_secure: bool) -> None:
    response = Response()
    asked = request(scheme=scheme, root_path="/ops")
    make(StillClock()).log_in(response, asked, Visitor(Role.READER, "ann"))
    attributes = response.headers["set-cookie"].lower().split("; ")
    assert {"path=/ops", "httponly", "samesite=lax"} <= set(attributes)
    assert ("secure" in attributes) is is_secure
