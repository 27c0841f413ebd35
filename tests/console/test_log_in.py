"""The log-in in a real Chromium: by a token, and as a user of the application around it."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from fastapi import FastAPI
from playwright.async_api import Page, expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount
from starlette.types import ASGIApp

from postroom.inspection import RecordState
from tests.console.served_console import Shop, opened
from tests.support.browser import Visitor, assert_accessible

pytestmark = pytest.mark.extended

OPERATOR, READER = "a-token-for-operators", "a-token-for-readers"
ROLES = {"ann": "operator", "bob": "reader"}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def locked(postgres_url: str) -> AsyncIterator[Shop]:
    """A console that asks for a token."""
    async with opened(postgres_url, token=OPERATOR, reader_token=READER) as shop:
        yield shop


async def log_in(page: Page, token: str) -> None:
    await page.get_by_label("Token").fill(token)
    await page.get_by_role("button", name="Log in").click()


@pytest.mark.requirement("E7")
async def test_a_wrong_token_is_refused_and_a_log_out_ends_the_visit(
    visitor: Visitor, page: Page, locked: Shop
) -> None:
    visitor.expects("403: POST")
    await page.goto(f"{locked.address}/records/8")
    await assert_accessible(page)
    await log_in(page, "not-the-token")
    await expect(page.get_by_role("alert")).to_have_text("Wrong token.")
    await log_in(page, OPERATOR)
    await expect(page.get_by_role("heading", level=1)).to_have_text("mail.sent 8 failed")
    await page.get_by_role("button", name="Log out").click()
    await page.goto(f"{locked.address}/records")
    await expect(page.get_by_label("Token")).to_be_visible()
    assert OPERATOR not in page.url


async def test_a_reader_sees_everything_and_has_no_buttons(page: Page, locked: Shop) -> None:
    await page.goto(locked.address)
    await log_in(page, READER)
    for path in ("/records", "/records/2", "/key?type=order&id=7", "/failures", "/workers"):
        await page.goto(locked.address + path)
        await expect(page.get_by_text("reader", exact=True)).to_be_visible()
        for verb in ("Retry", "Discard", "Pause", "Drain", "Skip"):
            assert await page.locator("main").get_by_role("button", name=verb).count() == 0


def in_fastapi(console: ASGIApp) -> ASGIApp:
    app = FastAPI()
    app.mount("/postroom", console)
    return app


def in_starlette(console: ASGIApp) -> ASGIApp:
    return Starlette(routes=[Mount("/tools", Starlette(routes=[Mount("/postroom", console)]))])


@pytest.mark.requirement("E7")
@pytest.mark.parametrize(("around", "path"), [(in_fastapi, ""), (in_starlette, "/tools")])
async def test_it_is_mounted_in_an_application_and_uses_its_users(
    page: Page, visitor: Visitor, postgres_url: str, around: object, path: str
) -> None:
    async with opened(
        postgres_url,
        around,
        authorize=lambda request: ROLES.get(request.headers.get("x-user", "")),
        user_name=user_name,
    ) as shop:
        shop.publisher.declines = False
        visitor.expects("403: GET")
        address = f"{shop.address}{path}/postroom"
        await page.goto(f"{address}/")
        await expect(page.get_by_role("alert")).to_contain_text("You have no access")
        await page.set_extra_http_headers({"X-User": "ann"})
        await page.goto(f"{address}/")
        for name in ("Records", "Failures", "Blocked keys", "Workers", "Events", "Audit"):
            await page.get_by_role("navigation").get_by_role("link", name=name).first.click()
            await expect(page.get_by_role("heading", level=1)).to_have_text(name)
            assert page.url.startswith(address)
        await page.goto(f"{address}/records/2")
        await page.get_by_role("button", name="Retry").click()
        await page.get_by_role("button", name="Retry 1 record").click()
        await expect(page.get_by_role("status").first).to_have_text("Retried 1 record.")
        await shop.until(5, RecordState.PUBLISHED)
        [change] = await shop.inspector.audit()
        assert change.operator == "user ann"


async def user_name(request: Request) -> str:
    return f"user {request.headers['x-user']}"
