"""The page of the demo in a browser: it shows what happens, and its buttons work."""

import re

import pytest
from playwright.async_api import Locator, Page, expect

from tests.examples.demo import Demo
from tests.support.browser import Visitor, assert_accessible

pytestmark = pytest.mark.extended


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name)


def counter(page: Page, name: str) -> Locator:
    """The number above a word."""
    return page.locator("#counters > div, #amounts > div").filter(has_text=name).locator("dd")


async def assert_nothing_went_wrong(page: Page, demo: Demo) -> None:
    await demo.until_all_is_delivered()
    for name in ("lost", "out of order", "doubled", "waiting"):
        await expect(counter(page, name)).to_have_text("0")


async def test_the_buttons_work_and_the_page_follows_by_itself(page: Page, demo: Demo) -> None:
    await page.goto(demo.address)
    headline = page.get_by_role("status")

    await button(page, "Send a message").click()
    await expect(headline).to_contain_text("You sent message")

    await button(page, "Roll one back").click()
    await expect(headline).to_contain_text("Rolled back")

    await button(page, "Stop the broker").click()
    await expect(page.get_by_text("Broker is stopped")).to_be_visible()
    await expect(button(page, "Start the broker")).to_be_focused()
    await button(page, "Refuse one").click()
    await expect(page.locator(".card.held").first).to_contain_text("broker stopped")
    await button(page, "Start the broker").press("Enter")
    await expect(page.get_by_text("Broker is running")).to_be_visible()
    await expect(page.locator("#story")).to_contain_text("was delivered when tried again")

    await button(page, "Kill the worker").click()
    await expect(page.locator("#story")).to_contain_text("(SIGKILL, process")
    await expect(page.get_by_text(re.compile(r"Worker \d+ is running"))).to_be_visible()
    await assert_nothing_went_wrong(page, demo)


async def test_the_buttons_work_without_javascript(visitor: Visitor, demo: Demo) -> None:
    page = await visitor.open(javascript=False)
    await page.goto(demo.address)
    await button(page, "Send a message").click()
    await expect(page.get_by_role("status")).to_contain_text("You sent message")
    await button(page, "Stop the broker").click()
    await expect(page.get_by_text("Broker is stopped")).to_be_visible()
    await button(page, "Start the broker").click()
    await expect(page.locator("#story")).to_contain_text("all delivered, in order")  # it reloads
    await assert_nothing_went_wrong(page, demo)


async def test_a_record_and_its_message_lead_to_the_console(page: Page, demo: Demo) -> None:
    await page.goto(demo.address)
    record = page.locator("#title-delivered").locator("xpath=../..").locator(".card").first
    for link in (".step", ".key"):
        await record.locator(link).click()
        await expect(page).to_have_url(re.compile("/console/"))
        await page.go_back()
    await page.get_by_role("link", name="Open the console").click()
    await expect(page).to_have_url(re.compile("/console/"))


async def test_everybody_can_use_it(visitor: Visitor, demo: Demo) -> None:
    demo.press("stop-broker")
    demo.press("send")
    for dark, phone in ((False, False), (True, True)):
        page = await visitor.open(dark=dark, phone=phone)
        await page.emulate_media(reduced_motion="reduce", color_scheme="dark" if dark else "light")
        await page.goto(demo.address)
        await expect(page.locator(".card.held")).to_have_count(4)
        await assert_accessible(page)
        assert not await page.evaluate("document.body.scrollWidth > innerWidth"), "too wide"
    demo.press("start-broker")
