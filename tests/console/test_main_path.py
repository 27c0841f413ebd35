"""The console's main path in a real Chromium: log in, see what is stuck and why, retry it."""

import pytest
from playwright.async_api import Page, expect

from postroom.inspection import RecordState
from tests.console.served_console import opened
from tests.support.browser import assert_accessible

TOKEN = "a-token-for-operators"


@pytest.mark.requirement("E7", "E10")
async def test_an_operator_logs_in_sees_what_is_stuck_and_retries_it(
    page: Page, postgres_url: str
) -> None:
    async with opened(postgres_url, token=TOKEN) as shop:
        await page.goto(shop.address)
        await page.get_by_label("Token").fill(TOKEN)
        await page.get_by_label("Your name").fill("Ann")
        await page.get_by_role("button", name="Log in").click()

        health = page.get_by_role("status", name="Health")
        await expect(health).to_contain_text("3 records failed.")
        await assert_accessible(page)
        await page.get_by_role("link", name="order/7").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("order/7 blocked")

        await page.goto(f"{shop.address}/records/2")
        await expect(page.locator(".timeline")).to_contain_text("card expired")
        await expect(page.get_by_label("Payload", exact=True)).to_contain_text('"[redacted]"')
        await page.get_by_role("button", name="Retry").click()
        preview = page.get_by_role("main")
        await expect(preview).to_contain_text("1 order.paid record of 1 key; 3 records wait behind")
        await expect(preview).to_contain_text("Order holds")
        assert await shop.state(2) is RecordState.FAILED  # nothing was done yet

        shop.publisher.declines = False
        await page.get_by_role("button", name="Retry 1 record", exact=True).click()
        await expect(page.get_by_role("status").first).to_have_text("Retried 1 record.")
        await shop.until(5, RecordState.PUBLISHED)
        of_key = [each.position for each in shop.publisher.delivered if each.aggregate_id == "7"]
        assert of_key == [1, 2, 3, 4, 5]
        [change] = await shop.inspector.audit()
        assert (change.operator, change.action, change.records) == ("Ann", "retry", 1)
