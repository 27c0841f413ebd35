"""Who may see the console and who may change something, by every way in and on every page."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
import pytest_asyncio
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from postroom import Outbox
from postroom.console import console
from postroom.console.app import ROUTES
from postroom.console.gate import HEADERS
from postroom.console.tokens import COOKIE, GUESSES
from postroom.errors import ConfigurationError
from postroom.inspection import Inspector
from tests.console import malicious_rows as rows
from tests.console.http_client import (
    READER_TOKEN,
    SAME_ORIGIN,
    TOKEN,
    PageParts,
    asking,
    log_in,
    post,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

VALUES = {"{name}": "1", "{group}": "x", "{job}": "x", "{verb}": "retry"}
KEY = "/key?type=order&id=7"


def _paths(method: str) -> list[str]:
    """Return every path that answers a method, so that a new one cannot be forgotten."""
    found = [each.path for each in ROUTES if isinstance(each, Route) and method in each.methods]  # type: ignore[operator]
    for name, value in VALUES.items():
        found = [each.replace(name, value) for each in found]
    return found


PAGES = [each for each in _paths("GET") if each != "/login"]
CHANGES = [each for each in _paths("POST") if each not in ("/login", "/logout")]
OutboxAndEngine = tuple[Outbox, AsyncEngine]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shop(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[OutboxAndEngine]:
    outbox, engine = await rows.outbox_file(tmp_path_factory.mktemp("access") / "outbox.db")
    await rows.fill(outbox, engine)
    yield outbox, engine
    await engine.dispose()


@pytest.fixture
def app(shop: OutboxAndEngine) -> Starlette:
    """A console with tokens, where nobody has guessed yet."""
    return console(*shop, token=TOKEN, reader_token=READER_TOKEN)


def remote(app: ASGIApp, client: str = "198.51.100.7", **options: Any) -> httpx.AsyncClient:
    """Ask from another machine."""
    return asking(app, client=client, host="console.example", **options)


# -- without a token


@pytest.mark.requirement("E7")
@pytest.mark.parametrize("path", PAGES)
async def test_a_page_asks_those_without_a_token_to_log_in(app: Starlette, path: str) -> None:
    async with remote(app) as visitor:
        answer = await visitor.get(path)
        assert answer.status_code == 303
        assert answer.headers["location"].partition("?")[0] == "/login"
        assert (await visitor.head(path)).status_code == 303
    async with remote(app, bearer="not the token") as visitor:
        assert (await visitor.get(path)).status_code == 401


@pytest.mark.requirement("E7")
@pytest.mark.parametrize("path", CHANGES)
async def test_nobody_changes_anything_without_a_token(app: Starlette, path: str) -> None:
    async with remote(app) as visitor:
        assert (await post(visitor, path)).status_code == 401


async def test_the_log_in_shows_nothing_about_the_outbox(
    app: Starlette, shop: OutboxAndEngine
) -> None:
    async with remote(app) as visitor:
        page = (await visitor.get("/login")).text
    assert str(shop[1].url.database) not in page
    assert "outbox" not in page


@pytest.mark.parametrize(
    "header",
    [
        *("Bearer", "Bearer ", f"bearer{TOKEN}", f"Basic {TOKEN}", f"Token {TOKEN}", TOKEN),
        *(f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Bearer {TOKEN.upper()}", "Bearer None"),
        *(f"Bearer {TOKEN} {TOKEN}", f'Bearer "{TOKEN}"', "Bearer \xff\xfe", f"Bearer\t{TOKEN}"),
    ],
)
async def test_a_header_with_anything_but_the_token_is_refused(app: Starlette, header: str) -> None:
    async with remote(app) as visitor:
        answer = await visitor.get("/audit", headers={b"authorization": header.encode("latin-1")})
        assert answer.status_code == 401


async def test_a_header_with_the_token_is_let_in(app: Starlette) -> None:
    async with remote(app, bearer=TOKEN) as visitor:
        assert (await visitor.get("/audit")).status_code == 200
    async with remote(app, authorization=f"bearer  {READER_TOKEN} ") as visitor:
        assert (await visitor.get("/audit")).status_code == 200


# -- roles


@pytest.mark.requirement("E7")
@pytest.mark.parametrize("path", CHANGES)
@pytest.mark.parametrize("way", ["header", "cookie"])
async def test_a_reader_changes_nothing(app: Starlette, path: str, way: str) -> None:
    async with remote(app, bearer=READER_TOKEN if way == "header" else None) as visitor:
        if way == "cookie":
            await log_in(visitor, READER_TOKEN)
        answer = await post(visitor, path, event_type="order.paid", worker="x", record="1")
        assert answer.status_code == 403
        assert "Nothing was done" in answer.text


@pytest.mark.parametrize("path", [*PAGES, KEY])
@pytest.mark.parametrize("read_only", [False, True])
async def test_a_reader_and_a_read_only_console_have_no_button_that_changes_something(
    shop: OutboxAndEngine, path: str, read_only: bool
) -> None:
    app = console(*shop, token=TOKEN, reader_token=READER_TOKEN, read_only=read_only)
    async with remote(app, bearer=TOKEN if read_only else READER_TOKEN) as visitor:
        answer = await visitor.get(path)
        parts = PageParts(answer.text)
        assert answer.status_code in (200, 303, 404)
        actions = {each.get("action") for each in parts.of("form") if each.get("method") == "post"}
        assert actions <= {"/logout", None}
        assert not any("formaction" in each for each in parts.of("button"))


async def test_an_operator_sees_buttons_and_changes_something(
    app: Starlette, shop: OutboxAndEngine
) -> None:
    async with remote(app) as visitor:
        await log_in(visitor, TOKEN, name="  Ann \n Bee ")
        forms = PageParts((await visitor.get("/records/1")).text).of("form")
        assert "/actions/retry/preview" in {each.get("action") for each in forms}
        assert (await post(visitor, "/pause", event_type="by.ann")).status_code == 303
    [change] = [each for each in await Inspector(*shop).audit() if each.target == "by.ann"]
    assert (change.action, change.operator) == ("pause", "Ann Bee")


@pytest.mark.requirement("E7")
@pytest.mark.parametrize("path", CHANGES)
async def test_nobody_changes_anything_in_a_read_only_console(
    shop: OutboxAndEngine, path: str
) -> None:
    by_token = console(*shop, token=TOKEN, read_only=True)
    by_application = console(*shop, authorize=lambda _: "operator", read_only=True)
    for visitor in (
        asking(console(*shop, read_only=True)),
        remote(by_token, bearer=TOKEN),
        remote(by_application),
    ):
        async with visitor:
            assert (await post(visitor, path, event_type="a", record="1")).status_code == 403


# -- the log-in and its cookie


async def test_a_log_in_leads_to_the_page_that_was_wanted(app: Starlette) -> None:
    async with remote(app) as visitor:
        asked = await visitor.get("/records?type=a%26b&state=failed")
        page = PageParts((await visitor.get(asked.headers["location"])).text)
        [wanted] = [each["value"] for each in page.of("input") if each["name"] == "next"]
        answer = await log_in(visitor, f" {TOKEN}\n", next=wanted)
        assert (answer.status_code, answer.headers["location"]) == (
            303,
            "/records?type=a%26b&state=failed",
        )
        assert (await visitor.get("/login?next=//evil.example")).headers["location"] == "/"


async def test_after_a_log_out_the_browser_has_to_log_in_again(app: Starlette) -> None:
    async with remote(app) as visitor:
        await log_in(visitor, READER_TOKEN)
        assert (await visitor.get("/audit")).status_code == 200
        assert (await post(visitor, "/logout")).headers["location"] == "/login"
        assert (await visitor.get("/audit")).status_code == 303


@pytest.mark.requirement("E7")
@pytest.mark.parametrize("way", ["log-in", "header"])
async def test_guessing_is_limited_for_each_client(
    app: Starlette, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    async with remote(app) as visitor:
        for number in range(GUESSES):
            if way == "log-in":
                assert (await log_in(visitor, f"guess {number}")).status_code == 403
            else:
                await visitor.get("/audit", headers={"authorization": f"Bearer {number}"})
        answer = await log_in(visitor, TOKEN)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")
        assert COOKIE not in visitor.cookies
    assert "too many wrong tokens from 198.51.100.7" in caplog.text
    async with remote(app, bearer=TOKEN) as visitor:  # the same client, by a header
        assert (await visitor.get("/audit")).status_code == 401
    async with remote(app, client="198.51.100.8") as visitor:
        assert (await log_in(visitor, TOKEN)).status_code == 303


@pytest.mark.parametrize(
    ("token", "reader_token", "problem"),
    [
        ("short", None, "16 characters"),
        (" " * 20, None, "16 characters"),
        (None, "x" * 15, "16 characters"),
        ("x" * 16, "x" * 16, "are the same"),
    ],
)
async def test_a_token_that_can_be_guessed_is_refused(
    shop: OutboxAndEngine, token: str | None, reader_token: str | None, problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        console(*shop, token=token, reader_token=reader_token)


# -- other sites


@pytest.mark.requirement("E7")
@pytest.mark.parametrize("path", [*CHANGES, "/login", "/logout"])
async def test_a_form_of_another_site_changes_nothing(app: Starlette, path: str) -> None:
    async with remote(app, bearer=TOKEN) as visitor:
        for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "http://evil.example"}, {}):
            answer = await post(visitor, path, headers, event_type="a", token=TOKEN)
            assert answer.status_code == 403
            assert "another site" in answer.text
            assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", ["/", "/login", "/nothing", "/static/console.css", "/static/x"])
async def test_every_answer_has_the_security_headers(app: Starlette, path: str) -> None:
    for bearer in (TOKEN, None):
        async with remote(app, bearer=bearer) as visitor:
            for answer in (await visitor.get(path), await visitor.post(path)):
                assert HEADERS.items() <= dict(answer.headers).items()
                is_file = path.startswith("/static/")
                assert (answer.headers.get("cache-control") == "no-store") is not is_file
    policy = HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


# -- this machine only


@pytest.mark.requirement("E7")
@pytest.mark.parametrize(
    ("client", "host", "header", "is_let_in"),
    [
        ("127.0.0.1", "127.0.0.1:8765", "", True),
        ("::1", "localhost", "", True),
        ("127.0.0.1", "localhost.evil.example", "", False),
        ("127.0.0.1", "localhost@evil.example", "", False),
        ("127.0.0.1", "", "", False),
        ("198.51.100.7", "localhost", "", False),
        ("testclient", "localhost", "", False),
        *(
            ("127.0.0.1", "localhost", each, False)
            for each in ("x-forwarded-for", "x-forwarded-proto", "forwarded", "via", "x-real-ip")
        ),
    ],
)
async def test_without_a_token_only_this_machine_is_let_in(
    shop: OutboxAndEngine, client: str, host: str, header: str, is_let_in: bool
) -> None:
    async with asking(console(*shop), client=client) as visitor:
        headers = {"host": host} | ({header: "127.0.0.1"} if header else {})
        for path in ("/audit", "/login"):
            answer = await visitor.get(path, headers=headers)
            assert (answer.status_code < 400) is is_let_in
            assert is_let_in or "its own machine only" in answer.text
        changed = await post(visitor, "/resume", headers | SAME_ORIGIN, event_type="a")
        assert changed.status_code == (303 if is_let_in else 403)


@pytest.mark.requirement("E7")
@pytest.mark.parametrize("header", ["origin", "referer"])
async def test_a_page_with_another_address_is_behind_a_proxy_and_not_let_in(
    shop: OutboxAndEngine, header: str
) -> None:
    async with asking(console(*shop)) as visitor:
        away, here = f"https://shop.example/{header}", f"http://localhost:8765/{header}"
        assert (await visitor.get("/audit", headers={header: away})).status_code == 403
        assert (await visitor.get("/audit", headers={header: here})).status_code == 200
        assert (await visitor.get("/audit", headers={header: "null"})).status_code == 403


@pytest.mark.parametrize("odd", [{"http_version": "1.0"}, {"client": None}], ids=str)
async def test_a_proxy_with_an_old_http_and_an_unknown_client_are_not_let_in(
    shop: OutboxAndEngine, odd: dict[str, Any]
) -> None:
    async def oddly(scope: Any, receive: Any, send: Any) -> None:
        await console(*shop)({**scope, **odd}, receive, send)

    async with asking(oddly) as visitor:
        assert (await visitor.get("/audit")).status_code == 403


# -- mounted in an application


@pytest.mark.requirement("E7")
@pytest.mark.parametrize(
    ("answer", "page", "change"),
    [("operator", 200, 303), ("reader", 200, 403), (None, 403, 403)],
)
@pytest.mark.parametrize("is_async", [False, True])
async def test_the_application_decides_who_is_let_in(
    shop: OutboxAndEngine, answer: str | None, page: int, change: int, is_async: bool
) -> None:
    async def later(request: Request) -> str | None:
        await asyncio.sleep(0)
        return answer

    app = console(*shop, authorize=later if is_async else lambda _: answer)
    async with remote(app, bearer=TOKEN) as visitor:
        assert (await visitor.get("/audit")).status_code == page
        assert (await post(visitor, "/resume", event_type="a")).status_code == change
        assert (await visitor.get("/login")).status_code == (403 if page == 403 else 303)


@pytest.mark.parametrize("answer", ["admin", True, ["operator"]])
async def test_an_answer_that_is_no_role_lets_nobody_in(
    shop: OutboxAndEngine, caplog: pytest.LogCaptureFixture, answer: Any
) -> None:
    async with asking(console(*shop, authorize=lambda _: answer)) as visitor:
        assert (await visitor.get("/audit")).status_code == 500
        assert (await post(visitor, "/pause")).status_code == 500
    assert "authorize" in caplog.text


async def test_an_application_that_fails_to_decide_lets_nobody_in(
    shop: OutboxAndEngine, caplog: pytest.LogCaptureFixture
) -> None:
    password = "geheim42"

    def fail(request: Request) -> str:
        raise LookupError(f"no session in postgresql://ann:{password}@db/users")

    async with asking(console(*shop, authorize=fail)) as visitor:
        for answer in (await visitor.get("/audit"), await post(visitor, "/pause")):
            assert answer.status_code == 500
            assert "session" not in answer.text
            assert "the log of its process says why" in answer.text
    assert "no session in postgresql://ann:***@db/users" in caplog.text
    assert password not in caplog.text


async def test_an_application_can_say_why_somebody_is_not_let_in(shop: OutboxAndEngine) -> None:
    def refuse(request: Request) -> str:
        raise HTTPException(403, "Only <b>admins</b> come in here.")

    async with asking(console(*shop, authorize=refuse)) as visitor:
        answer = await visitor.get("/audit")
        assert answer.status_code == 403
        assert "Only <b>admins</b> come in here." in PageParts(answer.text).text


async def test_the_name_of_a_user_is_in_the_audit_and_shown_as_text(
    shop: OutboxAndEngine,
) -> None:
    name = rows.markup("user")
    app = console(*shop, authorize=lambda _: "operator", user_name=lambda _: name)
    async with asking(app) as visitor:
        await post(visitor, "/pause", event_type="by.user")
        page = PageParts((await visitor.get("/audit")).text)
        page.check()
        assert name in page.text
    assert name in {each.operator for each in await Inspector(*shop).audit()}


@pytest.mark.parametrize(
    "options",
    [
        {"authorize": lambda _: "reader", "token": TOKEN},
        {"authorize": lambda _: "reader", "reader_token": READER_TOKEN},
        {"user_name": lambda _: "ann"},
        {"user_name": lambda _: "ann", "token": TOKEN},
    ],
)
async def test_two_ways_in_do_not_go_together(
    shop: OutboxAndEngine, options: dict[str, Any]
) -> None:
    with pytest.raises(ConfigurationError):
        console(*shop, **options)


def mounted(inner: ASGIApp, dispatch: Callable[..., Any] | None = None) -> Starlette:
    async def root(request: Request) -> Response:
        return PlainTextResponse("the application")

    middleware = [Middleware(BaseHTTPMiddleware, dispatch=dispatch)] if dispatch else []
    return Starlette(routes=[Route("/", root), Mount("/ops", inner)], middleware=middleware)


async def test_a_mounted_console_keeps_to_its_own_path(app: Starlette) -> None:
    async with remote(mounted(app)) as visitor:
        assert (await visitor.get("/ops/audit")).headers["location"] == "/ops/login?next=%2Faudit"
        answer = await post(visitor, "/ops/login", token=TOKEN, next="/audit")
        assert answer.headers["location"] == "/ops/audit"
        assert "path=/ops;" in answer.headers["set-cookie"].lower()
        parts = PageParts((await visitor.get("/ops/records")).text)
        for attributes in (*parts.of("a"), *parts.of("form"), *parts.of("link")):
            address = attributes.get("href") or attributes.get("action") or "#"
            assert address.startswith(("/ops/", "#"))
        assert [each["href"] for each in parts.of("a") if "aria-current" in each] == [
            "/ops/records"
        ]
        assert (await visitor.get("/ops/static/../audit")).status_code == 200  # httpx resolves it
        assert (await visitor.get("/ops/static/%2e%2e/app.py")).status_code == 404
        assert (await visitor.get("/")).text == "the application"


async def test_a_mounted_console_leaves_the_state_of_the_application_alone(
    shop: OutboxAndEngine,
) -> None:
    """Both have `request.state` in common; the application may call its own user a visitor."""
    seen = []

    async def note(request: Request, call_next: Callable[..., Any]) -> Any:
        request.state.visitor = "ann"
        answer = await call_next(request)
        seen.append(request.state.visitor)
        return answer

    inner = console(
        *shop, authorize=lambda request: "reader" if request.state.visitor == "ann" else None
    )
    async with remote(mounted(inner, note)) as visitor:
        assert (await visitor.get("/ops/audit")).status_code == 200
    assert seen == ["ann"]


# -- secrets


@pytest.mark.requirement("E10")
async def test_a_token_is_in_no_address_page_or_log(
    app: Starlette, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with remote(app) as visitor:
        answers = [await log_in(visitor, "almost-" + TOKEN, next="/records")]
        answers.append(await log_in(visitor, TOKEN, next="/records"))
        answers += [await visitor.get(path) for path in PAGES]
        answers.append(await post(visitor, "/pause", event_type="x", reason="y"))
        answers.append(await post(visitor, "/logout"))
    for answer in answers:
        assert TOKEN not in answer.text + str(answer.url) + str(answer.headers)
    assert TOKEN not in caplog.text


@pytest.mark.requirement("E10")
async def test_a_database_that_is_away_is_explained_without_its_password(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    address = "127.0.0.1:1"  # nobody listens there
    for url in (
        f"postgresql+asyncpg://ann:geheim42@{address}/shop",
        f"postgresql+asyncpg://{address}/shop?user=ann&password=geheim42",
    ):
        engine = create_async_engine(url)
        async with asking(console(rows.new_outbox(), engine)) as visitor:
            for path in (*PAGES, KEY):
                answer = await visitor.get(path)
                assert answer.status_code in (200, 303, 404, 503)  # some ask no database
                assert "geheim42" not in answer.text
            answer = await visitor.get("/records")
            assert "The database cannot be used" in answer.text
            assert address.rpartition(":")[0] in answer.text
            answer = await post(visitor, "/pause", event_type="a")
            assert answer.status_code == 503
        await engine.dispose()
    assert "geheim42" not in caplog.text


async def test_a_stranger_is_not_told_which_database_is_away() -> None:
    engine = create_async_engine("postgresql+asyncpg://ann@127.0.0.1:1/shop")

    async def authorize(request: Request) -> str:
        async with engine.connect():
            return "reader"

    async with asking(console(rows.new_outbox(), engine, authorize=authorize)) as visitor:
        answer = await visitor.get("/records")
    await engine.dispose()
    assert answer.status_code == 503
    assert "127.0.0.1" not in answer.text


async def test_tables_that_are_missing_are_named(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("empty")
    engine = create_async_engine(f"sqlite+aiosqlite:///{folder / 'empty.db'}")
    async with asking(console(rows.new_outbox(), engine)) as visitor:
        answer = await visitor.get("/records")
    await engine.dispose()
    assert answer.status_code == 503
    assert "outbox" in PageParts(answer.text).text


# -- what is no request


async def test_a_connection_that_breaks_during_a_form_is_no_failure(
    app: Starlette, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"sec-fetch-site", b"same-origin"), (b"host", b"x")]
    scope = {"type": "http", "method": "POST", "path": "/login", "headers": headers}
    await app({**scope, "query_string": b"", "client": ("10.0.0.1", 1)}, receive, send)
    assert sent[0]["status"] == 400
    assert caplog.text == ""
