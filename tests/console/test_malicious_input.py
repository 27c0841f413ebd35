"""What attackers send: markup in every field, odd paths, filters, forms and headers."""

import logging
from collections.abc import AsyncIterator, Iterator
from uuid import UUID

import httpx
import pytest
import pytest_asyncio
from sqlalchemy import insert, update
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.applications import Starlette

from postroom import Outbox
from postroom.console import console
from postroom.console.app import ROUTES
from postroom.console.forms import MAX_BYTES, MAX_FIELDS
from postroom.console.rendering import key_path
from postroom.errors import ConfigurationError
from postroom.inspection import Inspector
from postroom.inspection.failures import normalised
from postroom.record import Key
from tests.console import malicious_rows as rows
from tests.console.http_client import SAME_ORIGIN, PageParts, asking, post

pytestmark = [pytest.mark.extended, pytest.mark.asyncio(loop_scope="module")]

KEY_PAGE = key_path(Key(rows.KEY_TYPE, rows.KEY_ID))
TRACE_URL = "https://traces.example.com/t/{trace_id}"
SHOWN = rows.KEY_ID.replace(rows.RIGHT_TO_LEFT, r"\u202e")
"""How the key is shown: what turns text around is written as its code."""
FIELDS_OF_PAGES = {
    "/": [
        *(
            rows.EVENT_TYPE,
            normalised(rows.ERROR),
            rows.KEY_TYPE,
            SHOWN,
        ),
        *(
            rows.OPERATOR,
            rows.REASON,
            rows.PUBLISHER,
            rows.OUTAGE,
            rows.ROUTE,
        ),
    ],
    "/records": [rows.EVENT_TYPE, rows.ERROR, rows.KEY_TYPE, SHOWN],
    "/records/1": [
        *(
            rows.EVENT_TYPE,
            rows.ERROR,
            rows.KEY_TYPE,
            SHOWN,
            rows.SHORT_WORKER,
        ),
        *(rows.OPERATOR, rows.ACTION, rows.ATTEMPT, r"\u202e"),
    ],
    "/records/2": [
        rows.EVENT_TYPE,
        rows.KEY_TYPE,
        SHOWN,
        rows.REASON,
    ],
    "/failures": [rows.EVENT_TYPE, rows.ERROR],
    "/keys": [rows.EVENT_TYPE, rows.ERROR, rows.KEY_TYPE, SHOWN],
    KEY_PAGE: [rows.EVENT_TYPE, rows.ERROR, rows.KEY_TYPE, SHOWN],
    "/workers": [
        *(
            rows.WORKER,
            rows.OUTAGE,
            rows.ROUTE,
            rows.ROUTE_REASON,
            rows.VERSION,
        ),
        *(
            rows.PUBLISHER,
            rows.IN_FLIGHT_TYPE,
            rows.IN_FLIGHT_KEY,
            rows.OPERATOR,
        ),
        *(
            rows.HOST,
            rows.REASON,
            rows.KEY_TYPE,
            SHOWN,
            "paused" + rows.EVENT_TYPE,
        ),
    ],
    "/events": [rows.EVENT_TYPE],
    f"/event?{httpx.QueryParams(type=rows.EVENT_TYPE)}": [rows.EVENT_TYPE],
    "/audit": [
        rows.OPERATOR,
        rows.HOST,
        rows.ACTION,
        rows.TARGET,
    ],
    "/doctor": [],
}
"""The pages, and what each shows that is markup."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def outbox_and_engine(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[Outbox, AsyncEngine]]:
    outbox, engine = await rows.outbox_file(tmp_path_factory.mktemp("attacks") / "outbox.db")
    await rows.fill(outbox, engine)
    yield outbox, engine
    await engine.dispose()


@pytest.fixture(scope="module")
def app(outbox_and_engine: tuple[Outbox, AsyncEngine]) -> Starlette:
    return console(*outbox_and_engine)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def operator(app: Starlette) -> AsyncIterator[httpx.AsyncClient]:
    async with asking(app) as visitor:
        yield visitor


@pytest.fixture(autouse=True)
def nothing_failed(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail if an attack made the console fail: it logs what nobody expected."""
    yield
    assert [each.message for each in caplog.records if each.levelno >= logging.ERROR] == []


# -- markup


@pytest.mark.requirement("E7")
@pytest.mark.parametrize("path", FIELDS_OF_PAGES, ids=lambda path: path.partition("?")[0])
async def test_markup_in_a_record_is_shown_as_text(operator: httpx.AsyncClient, path: str) -> None:
    answer = await operator.get(path)
    assert answer.status_code == 200
    parts = PageParts(answer.text)
    parts.check()
    for value in FIELDS_OF_PAGES[path]:
        assert value in parts.shown
    if path != "/doctor":
        assert "{{7*7}}" in parts.shown  # no template in a value is evaluated
    assert rows.RIGHT_TO_LEFT not in parts.text


async def test_every_page_is_tested_for_markup() -> None:
    tested = {path.partition("?")[0] for path in FIELDS_OF_PAGES}
    others = {"/go", "/login", "/logout", "/jobs/{job}", "/failures/{group}", "/records/{name}"}
    paths = {route.path for route in ROUTES if "GET" in (getattr(route, "methods", None) or ())}  # type: ignore[attr-defined]
    assert paths - tested - others == set()


async def test_markup_in_a_payload_and_in_headers_is_shown_as_text(
    operator: httpx.AsyncClient,
) -> None:
    parts = PageParts((await operator.get("/records/1", params={"search": "<script>"})).text)
    parts.check()
    in_json = [each.replace('"', r"\"") for each in (rows.PAYLOAD_KEY, rows.PAYLOAD)]
    for value in (*in_json, rows.HEADER.replace('"', r"\"")):
        assert value in parts.text
    assert len(parts.of("mark")) == 3
    assert "3 matches" in parts.text


async def test_markup_in_a_group_of_failures_is_shown_as_text(
    operator: httpx.AsyncClient,
) -> None:
    [link] = {
        each["href"]
        for each in PageParts((await operator.get("/failures")).text).of("a")
        if each["href"].startswith("/failures/")
    }
    parts = PageParts((await operator.get(link)).text)
    parts.check()
    assert rows.EVENT_TYPE in parts.text
    assert rows.ERROR in parts.text


@pytest.mark.parametrize(
    ("path", "name"),
    [
        *(("/records", each) for each in ("type", "key", "error", "since", "older_than", "state")),
        *(("/records/1", "search"), ("/event", "type"), ("/go", "q"), ("/", "job")),
        *(("/records/<script>1<%2fscript>", "x"), ("/<script>", "x"), ("/failures/<b>", "x")),
    ],
)
async def test_markup_in_an_address_is_shown_as_text(
    operator: httpx.AsyncClient, path: str, name: str
) -> None:
    value = rows.markup("sent")
    answer = await operator.get(path, params={name: value}, follow_redirects=True)
    assert answer.status_code in (200, 400, 404)
    PageParts(answer.text).check()


async def test_markup_in_a_preview_and_in_its_result_is_shown_as_text(
    outbox_and_engine: tuple[Outbox, AsyncEngine], operator: httpx.AsyncClient
) -> None:
    fields = {"scope": "matching", "type": rows.EVENT_TYPE, "error": rows.ERROR}
    preview = await post(operator, "/actions/skip/preview", **fields, back=KEY_PAGE)
    parts = PageParts(preview.text)
    parts.check()
    assert rows.EVENT_TYPE in parts.text
    assert {"name": "type", "type": "hidden", "value": rows.EVENT_TYPE} in parts.of("input")
    named = await post(operator, "/actions/replay/preview", record="1")
    assert named.status_code == 409
    PageParts(named.text).check()
    assert rows.EVENT_TYPE in PageParts(named.text).text


async def test_a_form_names_a_key_exactly_whatever_its_characters(
    outbox_and_engine: tuple[Outbox, AsyncEngine], operator: httpx.AsyncClient
) -> None:
    """The page shows codes for invisible characters; a form that sent those would pause another."""
    key = Key("odd\u00a0type", f"a{rows.RIGHT_TO_LEFT}b")
    page = PageParts((await operator.get(key_path(key))).text)
    fields = {each["name"]: each["value"] for each in page.of("input") if "value" in each}
    await post(operator, "/pause", **fields)
    pauses = await Inspector(*outbox_and_engine).pauses()
    assert key in [each.key for each in pauses]
    page = PageParts((await operator.get("/workers")).text)
    [sent] = [each["value"] for each in page.of("input") if each.get("value") == key.aggregate_id]
    await post(operator, "/resume", key_type=key.aggregate_type, key_id=sent)
    assert key not in [each.key for each in await Inspector(*outbox_and_engine).pauses()]


@pytest.mark.parametrize(
    ("traceparent", "link"),
    [
        (
            f"00-{rows.TRACE}-b7ad6b7169203331-01",
            TRACE_URL.format(trace_id=rows.TRACE),
        ),
        ("00-../../../../../../../../../../x-1-01", None),
        ("00-javascript:alert(1)//aaaaaaaaaaa-1-01", None),
        ('00-"onclick="alert(1)"aaaaaaaaaaaaa-1-01', None),
        ("00-", None),
        (7, None),
    ],
)
async def test_a_trace_is_linked_by_its_id_only(
    outbox_and_engine: tuple[Outbox, AsyncEngine], traceparent: object, link: str | None
) -> None:
    outbox, engine = outbox_and_engine
    async with engine.begin() as connection:
        changed = update(outbox.tables.records).where(outbox.tables.records.c.position == 3)
        await connection.execute(changed.values(headers={"traceparent": traceparent}))
    async with asking(console(outbox, engine, trace_url=TRACE_URL)) as visitor:
        parts = PageParts((await visitor.get("/records/3")).text)
    found = [each["href"] for each in parts.of("a") if each["href"].startswith("https:")]
    assert found == ([] if link is None else [link])


async def test_a_trace_url_has_to_name_the_trace(
    outbox_and_engine: tuple[Outbox, AsyncEngine],
) -> None:
    with pytest.raises(ConfigurationError, match="trace_id"):
        console(*outbox_and_engine, trace_url="https://traces.example.com/")


@pytest.mark.parametrize(
    ("position", "payload"),
    [
        pytest.param(101, '"' * 300_000, id="quotes"),
        pytest.param(102, dict.fromkeys(map(str, range(20_000)), 0), id="many keys"),
        pytest.param(103, "\u202e\u200b\x1b" * 70_000, id="invisible characters"),
    ],
)
async def test_a_payload_that_is_large_and_odd_is_shown(
    outbox_and_engine: tuple[Outbox, AsyncEngine],
    operator: httpx.AsyncClient,
    position: int,
    payload: object,
) -> None:
    """Else the quotes take half an hour, and pytest-timeout ends the test."""
    outbox, engine = outbox_and_engine
    async with engine.begin() as connection:
        row = rows.record(position, status="published", payload={"it": payload})
        await connection.execute(insert(outbox.tables.records).values(row))
    answer = await operator.get(f"/records/{position}", params={"search": "0"})
    assert answer.status_code == 200
    assert "…" in answer.text


# -- paths


@pytest.mark.parametrize(
    "path",
    [
        *("/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py"),
        *("/static/..%5capp.py", "/static//etc/passwd", "/static/%00", "/static/", "/static/x/y"),
        *("/records/../../etc/passwd", "/records/%2e%2e", "/records/%00", "/records/%ff"),
        *("/records/..%2f..%2fapp.py", f"/records/{'9' * 19}", "/records/%D9%A3"),
        f"/records/{'9' * 10_000}",
        *("/failures/%2e%2e", "/failures/%00", f"/failures/{'f' * 10_000}", "/jobs/%00", "/x"),
        *(
            "/actions/purge",
            "/actions/retry",
            "/key",
            "/key?type=order",
            "/event",
            "/event?type=%00",
        ),
    ],
    ids=lambda path: path[:40],
)
async def test_a_path_that_leads_nowhere_is_not_found(
    operator: httpx.AsyncClient, path: str
) -> None:
    answer = await operator.get(path)
    assert answer.status_code in (404, 405)
    assert "def console" not in answer.text
    assert "root:" not in answer.text


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "PATCH", "DELETE", "TRACE", "QUERY"])
async def test_other_methods_are_refused(operator: httpx.AsyncClient, method: str) -> None:
    for path in ("/", "/pause", "/static/console.js"):
        answer = await operator.request(method, path, headers=SAME_ORIGIN)
        assert answer.status_code == 405


# -- filters and numbers


@pytest.mark.parametrize(
    "address",
    [
        *("/records?state=gone", "/records?" + "&".join(f"state={n}" for n in range(2000))),
        *(f"/{page}={'9' * 5000}" for page in ("keys?after", "records?after", "audit?before")),
        *(f"/records?{query}" for query in ("after=%00", "order=%00", "error=%25")),
        *("/records?type=%ed%a0%80", "/go?q=%00", "/go?q=" + "9" * 18, "/go?q=%ff", "/?job=%00"),
    ],
    ids=lambda address: address[:30],
)
async def test_odd_filters_numbers_and_texts_do_no_harm(
    operator: httpx.AsyncClient, address: str
) -> None:
    answer = await operator.get(address, follow_redirects=True)
    assert answer.status_code in (200, 400, 404)


async def test_to_check_again_is_not_the_address_that_is_shown(operator: httpx.AsyncClient) -> None:
    answer = await operator.get("/doctor?again=1")  # a page that refreshes itself would check on
    assert (answer.status_code, answer.headers["location"]) == (303, "/doctor")


# -- forms


async def chunks(size: int) -> AsyncIterator[bytes]:
    for _ in range(0, size, 10_000):
        yield b"a" * 10_000


@pytest.mark.parametrize(
    ("content", "content_type", "status"),
    [
        (b"a=" + b"a" * MAX_BYTES, None, 413),
        (chunks(2 * MAX_BYTES), None, 413),
        (b"&".join([b"a=1"] * (MAX_FIELDS + 1)), None, 400),
        (b"event_type=\xff\xfe", None, 400),
        (b"event_type=a%00b", None, 400),
        (b'{"event_type": "a"}', "application/json", 415),
        (b"--x\r\n", "multipart/form-data; boundary=x", 415),
        (b"event_type=", None, 400),
        (b"key_type=order", None, 400),
        (b"key_id=" + b"x" * 513, None, 400),
        (b"key_id=7&event_type=a", None, 400),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_a_form_that_cannot_be_read_changes_nothing(
    outbox_and_engine: tuple[Outbox, AsyncEngine],
    operator: httpx.AsyncClient,
    content: bytes | AsyncIterator[bytes],
    content_type: str | None,
    status: int,
) -> None:
    headers = {"content-type": content_type or "application/x-www-form-urlencoded"} | SAME_ORIGIN
    before = await Inspector(*outbox_and_engine).pauses()
    answer = await operator.post("/pause", headers=headers, content=content)
    assert answer.status_code == status
    assert await Inspector(*outbox_and_engine).pauses() == before


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"shown": "1"}, 409),
        ({"shown": "1", "record": ["1"] * 501}, 400),
        ({"shown": "1", "record": "no such record"}, 404),
        ({"shown": "1", "group": "x" * 100_000}, 409),
        ({"shown": "1", "scope": "matching", "type": "x" * 700}, 400),
        ({"shown": "1", "scope": "matching", "state": "published"}, 409),
        ({"scope": "matching", "shown": "9" * 18}, 303),  # no such record
        ({"scope": "matching", "shown": "9" * 5000}, 400),
        ({"scope": "matching"}, 400),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_an_action_without_a_preview_of_it_changes_nothing(
    outbox_and_engine: tuple[Outbox, AsyncEngine],
    operator: httpx.AsyncClient,
    fields: dict[str, str | list[str]],
    status: int,
) -> None:
    before = await Inspector(*outbox_and_engine).audit()
    answer = await post(operator, "/actions/discard", **fields)
    assert answer.status_code == status
    assert await Inspector(*outbox_and_engine).audit() == before


@pytest.mark.parametrize("back", ["//evil.example", "/\\evil.example", "/x\r\nset-cookie: a=b"])
async def test_a_form_leads_to_no_other_site(operator: httpx.AsyncClient, back: str) -> None:
    answer = await post(operator, "/resume", event_type="none.such", back=back)
    assert (answer.status_code, answer.headers["location"]) == (303, "/workers")
    assert "set-cookie" not in answer.headers
    answer = await operator.get("/login", params={"next": back})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


# -- secrets


@pytest.mark.requirement("E10")
async def test_redacted_fields_are_on_no_page_and_are_not_found_by_a_search(
    operator: httpx.AsyncClient,
) -> None:
    pages = [(await operator.get(path)).text for path in FIELDS_OF_PAGES]
    for secret in rows.SECRETS.values():
        assert not any(secret in each for each in pages)
        page = PageParts((await operator.get("/records/1", params={"search": secret})).text)
        assert "0 matches" in page.text
        assert page.of("mark") == []
        found = await operator.get("/records", params={"error": secret})
        assert "No record matches" in PageParts(found.text).text
    assert "[redacted]" in (await operator.get("/records/1")).text


async def test_ids_of_records_lead_to_their_pages(
    outbox_and_engine: tuple[Outbox, AsyncEngine], operator: httpx.AsyncClient
) -> None:
    found: UUID = (await Inspector(*outbox_and_engine).record("1")).record.id
    for typed in (str(found), "1", found.hex):
        answer = await operator.get("/go", params={"q": typed}, follow_redirects=True)
        assert answer.status_code == 200
        assert str(found) in answer.text
