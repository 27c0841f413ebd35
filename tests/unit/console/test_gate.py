"""The gate: what it refuses and adds, around an application of a few lines."""

from collections.abc import Callable
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from postroom.console import gate as gate_module
from postroom.console.access import Role, Visitor, host_of, is_loopback
from postroom.console.gate import HEADERS, Gate, is_same_origin
from tests.unit.console.requests import request


class Fixed:
    """Access for one visitor, whoever asks."""

    refusal = "not here"

    def __init__(self, visitor: Visitor | None, *, has_login: bool = False) -> None:
        self.has_login = has_login
        self._visitor = visitor

    async def visitor(self, request: Request) -> Visitor | None:
        return self._visitor


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the length of the body, and who asks."""
    asked = Request(scope, receive)
    text = f"{len(await asked.body())} {asked.state.postroom_visitor}"
    await PlainTextResponse(text)(scope, receive, send)


def refuse(request: Request, status: int, text: str) -> Response:
    return PlainTextResponse(text, status_code=status)


async def explain(request: Request, error: Exception) -> Response:
    return PlainTextResponse(type(error).__name__, status_code=500)


@pytest.fixture(autouse=True)
def _plain_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the gate answer with texts: its pages need a console."""
    monkeypatch.setattr(gate_module, "refuse", refuse)
    monkeypatch.setattr(gate_module, "explain", explain)


async def ask(
    access: Fixed,
    asked: Request,
    *,
    app: Callable[..., Any] = echo,
    body: tuple[bytes, ...] = (b"",),
    read_only: bool = False,
) -> tuple[int, dict[str, str], str]:
    """Return the status, the headers and the text of an answer."""
    gate = Gate(app, access=access, read_only=read_only)
    parts = list(body)
    sent: list[Message] = []

    async def receive() -> Message:
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message: Message) -> None:
        sent.append(message)

    await gate(asked.scope, receive, send)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(each["body"] for each in sent[1:]).decode()


OPERATOR, READER = Fixed(Visitor(Role.OPERATOR, "ann")), Fixed(Visitor(Role.READER, "bob"))
NOBODY, STRANGER = Fixed(None), Fixed(None, has_login=True)
OWN = {"sec_fetch_site": "same-origin"}


@pytest.mark.parametrize(
    ("access", "asked", "status"),
    [
        (OPERATOR, request(), 200),
        (OPERATOR, request("HEAD"), 200),
        (OPERATOR, request("POST", "/pause", **OWN), 200),
        (OPERATOR, request("POST", "/pause"), 403),
        (OPERATOR, request("PUT", "/pause", **OWN), 405),
        (READER, request(), 200),
        (READER, request("POST", "/pause", **OWN), 403),
        (READER, request("POST", "/logout", **OWN), 200),
        (READER, request("POST", "/logout"), 403),
        (NOBODY, request(), 403),
        (NOBODY, request(path="/login"), 403),
        (NOBODY, request("POST", "/login", **OWN), 403),
        (STRANGER, request(), 303),
        (STRANGER, request(path="/login"), 200),
        (STRANGER, request("POST", "/login", **OWN), 200),
        (STRANGER, request("POST", "/logout", **OWN), 401),
        (STRANGER, request(path="/login/x"), 303),
        (STRANGER, request(path="/static/x"), 200),
        (STRANGER, request(path="/static"), 303),
        (STRANGER, request(path="/ops/static/x"), 303),
        (STRANGER, request(path="/ops/static/x", root_path="/ops"), 200),
        (STRANGER, request(path="/ops/login", root_path="/ops"), 200),
        (STRANGER, request(path="/ops", root_path="/ops"), 303),
        (STRANGER, request(path="/opslogin", root_path="/ops"), 303),
        (STRANGER, request(authorization="Bearer x"), 401),
    ],
)
async def test_who_is_let_in_where(access: Fixed, asked: Request, status: int) -> None:
    code, headers, _ = await ask(access, asked)
    assert code == status
    assert HEADERS.items() <= headers.items()


async def test_in_a_read_only_console_an_operator_is_a_reader() -> None:
    _, _, text = await ask(OPERATOR, request(), read_only=True)
    assert text == f"0 {Visitor(Role.READER, 'ann')}"
    assert (await ask(OPERATOR, request("POST", "/pause", **OWN), read_only=True))[0] == 403


async def test_a_page_is_not_kept_by_caches_and_a_file_is() -> None:
    assert (await ask(OPERATOR, request()))[1]["cache-control"] == "no-store"
    assert "cache-control" not in (await ask(OPERATOR, request(path="/static/x")))[1]


async def test_an_error_after_the_beginning_of_an_answer_is_raised() -> None:
    async def half(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise LookupError("half")

    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        raise LookupError("none")

    with pytest.raises(LookupError, match="half"):
        await ask(OPERATOR, request(), app=half)
    assert (await ask(OPERATOR, request(), app=fail))[2] == "LookupError"


async def test_a_web_socket_is_closed_and_reaches_no_page() -> None:
    sent: list[Message] = []

    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        raise LookupError("a page")

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    gate = Gate(fail, access=OPERATOR, read_only=False)
    await gate({"type": "websocket", "path": "/static/x", "headers": []}, receive, send)
    assert [each["type"] for each in sent] == ["websocket.close"]


@pytest.mark.parametrize(
    ("headers", "is_own"),
    [
        ({"sec_fetch_site": "same-origin"}, True),
        ({"sec_fetch_site": "same-origin", "origin": "https://elsewhere"}, True),
        ({"sec_fetch_site": "same-site"}, False),
        ({"sec_fetch_site": "cross-site", "origin": "http://own:80"}, False),
        ({"sec_fetch_site": "none"}, False),
        ({"sec_fetch_site": ""}, False),
        ({"sec_fetch_site": "Same-Origin"}, False),
        ({"sec_fetch_site": "same-origin, cross-site"}, False),
        ({"origin": "http://own:80"}, True),
        ({"origin": "https://own:80"}, True),
        ({"origin": "http://own"}, False),
        ({"origin": "http://own:81"}, False),
        ({"origin": "http://own:80.evil"}, False),
        ({"origin": "http://evil@own:80"}, False),
        ({"origin": "http://own:80/"}, False),
        ({"origin": "own:80"}, False),
        ({"origin": "://own:80"}, False),
        ({"origin": "null"}, False),
        ({"origin": ""}, False),
        ({"origin": "http://["}, False),
        ({}, False),
    ],
    ids=str,
)
def test_which_requests_are_of_a_page_of_the_console(headers: dict[str, str], is_own: bool) -> None:
    assert is_same_origin(request("POST", host="own:80", **headers)) is is_own


def test_an_origin_without_a_host_is_not_that_of_a_request_without_one() -> None:
    for origin in ("null", "http://", ""):
        assert not is_same_origin(request("POST", origin=origin))
        assert not is_same_origin(request("POST", origin=origin, host=""))


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        *((each, True) for each in ("localhost", "LOCALHOST.", "a.localhost", "127.0.0.1", "::1")),
        *((each, True) for each in ("[::1]", "127.255.0.1", "::ffff:127.0.0.1", "::1%lo")),
        *((each, False) for each in ("", "::", "10.0.0.1", "localhost.evil", "127.1")),
        *((each, False) for each in ("127.0.0.1.evil", "notlocalhost", "::ffff:10.0.0.1", "x")),
    ],
)
def test_which_hosts_are_this_machine(host: str, is_own: bool) -> None:
    assert is_loopback(host) is is_own


@pytest.mark.parametrize(
    ("url", "host"),
    [("//a:1", "a"), ("//[::1]:80", "::1"), ("//x@a", "a"), ("//[", ""), ("//", ""), ("//]", "")],
)
def test_the_host_of_a_url_that_cannot_be_read_is_empty(url: str, host: str) -> None:
    assert host_of(url) == host
