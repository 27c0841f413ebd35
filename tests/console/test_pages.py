"""Every page in a real Chromium, while a worker delivers: light, dark, phone, without scripts."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.console.served_console import Shop, opened
from tests.support.browser import PHONE, Visitor, assert_accessible
from tests.support.shop_with_failures import CANARY, MARKUP

pytestmark = [pytest.mark.extended, pytest.mark.no_cover]  # test_malicious_input covers each page

PAGES = {
    "/": "Overview",
    "/records": "Records",
    "/records?state=failed&error=declined": "Records",
    "/records/2": "order.paid 2 failed",
    "/records/3": "order.shipped 3 parked",
    "/records/6": "order.placed 6 delivered",
    "/keys": "Blocked keys",
    "/key?type=order&id=7": "order/7 blocked",
    "/key?type=order&id=none": "order/none",
    "/failures": "Failures",
    "/workers": "Workers",
    "/events": "Events",
    "/event?type=order.paid": "order.paid",
    "/doctor": "Doctor",
    "/audit": "Audit",
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shop(postgres_url: str) -> AsyncIterator[Shop]:
    async with opened(postgres_url) as shop:
        yield shop


async def visit_all(page: Page, shop: Shop) -> AsyncIterator[str]:
    """Open each page, and check its heading."""
    for path, heading in PAGES.items():
        await page.goto(shop.address + path)
        await expect(page.get_by_role("heading", level=1)).to_have_text(heading)
        yield path


@pytest.mark.requirement("E7")
async def test_every_page_is_accessible(page: Page, shop: Shop) -> None:
    async for _ in visit_all(page, shop):
        await assert_accessible(page)


async def test_every_page_fits_a_phone_and_can_be_read_in_the_dark(
    visitor: Visitor, shop: Shop
) -> None:
    page = await visitor.open(phone=True, dark=True)
    async for path in visit_all(page, shop):
        width = await page.evaluate("document.documentElement.scrollWidth")
        assert width <= PHONE["width"], path
        await assert_accessible(page, "scrollable-region-focusable", "color-contrast")


@pytest.mark.requirement("E7")
async def test_every_page_is_read_without_javascript(visitor: Visitor, shop: Shop) -> None:
    page = await visitor.open(javascript=False)
    async for path in visit_all(page, shop):
        text = await page.locator("main").inner_text()
        assert CANARY not in text
        assert "Traceback" not in text, path


@pytest.mark.requirement("E7")
async def test_the_overview_tells_what_is_wrong(page: Page, shop: Shop) -> None:
    await page.goto(shop.address)
    health = page.get_by_role("status", name="Health")
    await expect(health).to_contain_text("3 records failed.")
    numbers = page.get_by_role("region", name="Numbers")
    await expect(numbers.get_by_role("link", name="Failed")).to_contain_text("3")
    await expect(numbers.get_by_role("link", name="Blocked keys")).to_contain_text("1")
    await expect(numbers.get_by_role("link", name="Publisher")).to_contain_text("ok")
    await expect(page.get_by_role("region", name="The last 10 minutes")).to_contain_text("p99")
    await page.get_by_role("link", name="order/7").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("order/7 blocked")


@pytest.mark.requirement("E10")
async def test_a_record_shows_its_journey_and_its_payload_without_secrets(
    page: Page, shop: Shop
) -> None:
    await page.goto(f"{shop.address}/records/2")
    steps = page.locator(".timeline li")
    await expect(steps.filter(has_text="Saved")).to_have_count(1)
    await expect(steps.filter(has_text="Attempt 1 refused")).to_contain_text("card expired")
    await expect(steps.filter(has_text="Attempt 2 failed it")).to_contain_text("card expired")
    await expect(page.get_by_role("status").first).to_contain_text("An operator: it failed after 2")
    await expect(page.get_by_label("Payload", exact=True)).to_contain_text('"[redacted]"')
    await page.get_by_label("Search payload").fill("TOTAL")
    await page.keyboard.press("Enter")
    await expect(page.locator("mark")).to_have_text("total")
    assert CANARY not in await page.content()


async def test_a_record_that_waits_names_the_one_it_waits_for(page: Page, shop: Shop) -> None:
    await page.goto(f"{shop.address}/records/4")
    wait = page.locator("#wait")
    await expect(wait).to_contain_text("order.paid")
    await wait.get_by_role("link", name="order.paid").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("order.paid 2 failed")


@pytest.mark.requirement("E7")
async def test_markup_in_a_payload_is_shown_as_text(page: Page, shop: Shop) -> None:
    await page.goto(f"{shop.address}/records/6")
    await expect(page.get_by_label("Payload", exact=True)).to_contain_text(MARKUP)
    assert await page.locator("main img").count() == 0


async def test_the_filter_is_in_the_address_and_says_what_it_cannot_read(
    visitor: Visitor, page: Page, shop: Shop
) -> None:
    await page.goto(f"{shop.address}/records")
    await page.get_by_label("failed", exact=True).check()
    await page.get_by_label("Event type", exact=True).fill("mail.*")
    await page.get_by_role("button", name="Filter").click()
    await expect(page.locator("tbody tr")).to_have_count(2)
    assert "state=failed" in page.url
    assert "type=mail" in page.url
    visitor.expects("400: GET")
    await page.get_by_label("Older than").fill("soon")
    await page.get_by_role("button", name="Filter").click()
    await expect(page.locator(".problem")).to_have_text(
        "It has to be a number and a unit, like 30s, 15m, 2h, 7d or 1w."
    )


async def test_the_console_is_used_by_keyboard(page: Page, shop: Shop) -> None:
    await page.goto(shop.address)
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    await page.keyboard.press("/")
    await expect(page.get_by_role("searchbox")).to_be_focused()
    await page.keyboard.type("order/7")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("order/7 blocked")


async def test_light_and_dark_can_be_switched_and_are_remembered(page: Page, shop: Shop) -> None:
    await page.goto(shop.address)
    await page.get_by_role("button", name="Dark").click()
    await page.goto(f"{shop.address}/audit")
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await expect(page.get_by_role("button", name="Light")).to_be_visible()


async def test_a_page_that_cannot_be_refreshed_says_so(
    visitor: Visitor, page: Page, shop: Shop
) -> None:
    visitor.expects("net::ERR_CONNECTION_REFUSED")
    await page.goto(shop.address)
    notice = page.get_by_text("This page is not up to date")
    await expect(notice).to_be_hidden()
    await page.route(f"{shop.address}/", lambda route: route.abort("connectionrefused"))
    await expect(notice).to_be_visible()
    await page.unroute(f"{shop.address}/")
    await expect(notice).to_be_hidden()


async def test_what_is_not_there_is_said(visitor: Visitor, page: Page, shop: Shop) -> None:
    visitor.expects("404: GET")
    for path in ("/records/12345", "/nothing", "/jobs/none", "/event?type=none", "/failures/none"):
        await page.goto(shop.address + path)
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await assert_accessible(page)
