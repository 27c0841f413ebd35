"""Every action in a real Chromium: what it does in the database, while a worker delivers."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect
from sqlalchemy import delete, text

from postroom import Key
from postroom.console import jobs
from postroom.inspection import RecordState, WorkerState
from postroom.operations import Operations
from tests.console.served_console import Shop, opened
from tests.support.browser import Visitor, assert_accessible
from tests.support.shop_with_failures import mail, order
from tests.support.waiting import eventually

pytestmark = pytest.mark.extended


@pytest_asyncio.fixture(loop_scope="session")
async def shop(postgres_url: str) -> AsyncIterator[Shop]:
    async with opened(postgres_url) as shop:
        yield shop


async def confirm(page: Page, button: str) -> None:
    """Press the button of a preview."""
    await page.get_by_role("button", name=button, exact=True).click()


async def test_a_failed_record_is_retried_without_scripts(visitor: Visitor, shop: Shop) -> None:
    shop.publisher.declines = False
    page = await visitor.open(javascript=False)
    await page.goto(f"{shop.address}/records/2")
    await page.get_by_role("button", name="Retry").click()
    assert await shop.state(2) is RecordState.FAILED  # nothing was done yet
    await confirm(page, "Retry 1 record")
    await shop.until(5, RecordState.PUBLISHED)


async def test_a_key_goes_on_without_its_failed_record(page: Page, shop: Shop) -> None:
    await page.goto(f"{shop.address}/key?type=order&id=7")
    await expect(page.get_by_role("status").first).to_contain_text("order/7 is blocked by")
    await page.get_by_role("button", name="Skip").click()
    await assert_accessible(page)
    await confirm(page, "Skip 1 record")
    await shop.until(5, RecordState.PUBLISHED)
    assert await shop.state(2) is RecordState.FAILED
    await expect(page.get_by_text("order/7 has no record that waits")).to_be_visible()


async def test_selected_records_are_discarded(page: Page, shop: Shop) -> None:
    await page.goto(f"{shop.address}/records?state=failed")
    await page.get_by_label("Select record 8").check()
    await page.get_by_label("Select record 9").check()
    await page.get_by_role("button", name="Discard…").click()
    await expect(page.get_by_role("main")).to_contain_text("2 mail.sent records.")
    await expect(page.get_by_role("main")).to_contain_text("deleted for good")
    await confirm(page, "Discard 2 records")
    await expect(page.get_by_role("status")).to_have_text("Discarded 2 records.")
    assert "state=failed" in page.url  # back on the list that they were selected from
    assert await shop.count("failed") == 1


async def test_all_that_match_a_filter_are_changed_and_no_others(page: Page, shop: Shop) -> None:
    shop.publisher.declines = False
    await page.goto(f"{shop.address}/records?state=failed&type=mail.*&error=full")
    await page.get_by_label("all that match").check()
    await page.get_by_role("button", name="Retry…").click()
    await confirm(page, "Retry 2 records")
    await shop.until(8, RecordState.PUBLISHED)
    await shop.until(9, RecordState.PUBLISHED)
    assert await shop.state(2) is RecordState.FAILED
    [(action, target, count)] = await shop.audited()
    assert (action, count) == ("retry", 2)
    assert "mail.*" in target


async def test_select_all_and_shift_select_records_of_a_page(page: Page, shop: Shop) -> None:
    await page.goto(f"{shop.address}/records")
    await page.get_by_label("Select all on this page").check()
    boxes = page.locator("input[name=record]")
    assert await boxes.evaluate_all("boxes => boxes.every(box => box.checked)")
    await page.get_by_label("Select all on this page").uncheck()
    await boxes.nth(1).click()
    await boxes.nth(3).click(modifiers=["Shift"])
    assert await boxes.evaluate_all("boxes => boxes.filter(box => box.checked).length") == 3


async def test_just_the_records_that_were_shown_are_changed(page: Page, shop: Shop) -> None:
    await page.goto(f"{shop.address}/failures")
    await page.get_by_role("row", name="mail.sent").get_by_role("button", name="Discard").click()
    await shop.save(mail(42))
    await shop.until(10, RecordState.FAILED)
    async with shop.engine.begin() as connection:  # another operator
        await connection.execute(delete(shop.outbox.tables.records).where(text("position = 8")))
    await confirm(page, "Discard 2 records")
    await expect(page.get_by_role("status")).to_have_text("Discarded 1 record.")
    assert await shop.state(10) is RecordState.FAILED
    assert await shop.count("failed") == 2


async def test_a_group_is_retried_with_progress(
    page: Page, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.save(*(mail(number) for number in range(1200)))

    async def all_failed() -> bool:
        return await shop.count("failed") == 1203

    await eventually(all_failed, "1,200 more records failed")
    shop.publisher.declines = False
    monkeypatch.setattr(jobs, "SOON", 0)  # as if it took long
    await page.goto(f"{shop.address}/failures")
    await page.get_by_role("row", name="mail.sent").get_by_role("button", name="Retry").click()
    await confirm(page, "Retry 1,202 records")
    assert "/jobs/" in page.url
    await expect(page.get_by_role("status")).to_contain_text("Retried 1,202 records.")
    await assert_accessible(page)
    await shop.until(1209, RecordState.PUBLISHED)
    assert [each[2] for each in await shop.audited()] == [1202]


async def test_delivered_records_are_replayed(page: Page, shop: Shop) -> None:
    before = len(shop.publisher.delivered)
    await page.goto(f"{shop.address}/records/6")
    await page.get_by_role("button", name="Replay").click()
    await confirm(page, "Replay 1 record")
    await eventually(lambda: len(shop.publisher.delivered) > before, "it is delivered again")
    assert "postroom-replay" in shop.publisher.delivered[-1].headers


@pytest.mark.requirement("E7")
async def test_deliveries_are_paused_and_resumed(page: Page, shop: Shop) -> None:
    await page.goto(f"{shop.address}/workers")
    await page.get_by_text("Pause all deliveries", exact=True).first.click()
    await page.get_by_label("Reason, shown to other operators").fill("the broker is being repaired")
    await page.get_by_role("button", name="Pause all deliveries").click()
    await expect(page.get_by_role("row", name="the outbox")).to_contain_text("being repaired")

    async def is_paused() -> bool:
        return (await shop.inspector.workers())[0].state is WorkerState.PAUSED

    await eventually(is_paused, "the worker is paused")
    await shop.save(order(9, "placed"))
    await page.goto(f"{shop.address}/records/10")
    await expect(page.locator("#wait")).to_contain_text("An operator: the outbox was paused")
    assert await shop.state(10) is RecordState.PAUSED
    await page.goto(f"{shop.address}/workers")
    await page.get_by_role("button", name="Resume all deliveries").click()
    await shop.until(10, RecordState.PUBLISHED)
    assert [action for action, *_ in await shop.audited()] == ["pause", "resume"]


async def test_a_key_and_an_event_type_are_paused_and_resumed(page: Page, shop: Shop) -> None:
    await page.goto(f"{shop.address}/key?type=order&id=9")
    await page.get_by_text("Pause this key").first.click()
    await page.get_by_role("button", name="Pause this key").click()
    await expect(page.get_by_role("button", name="Resume this key")).to_be_visible()
    await page.goto(f"{shop.address}/event?type=order.placed")
    await page.get_by_text("Pause this event type").first.click()
    await page.get_by_role("button", name="Pause this event type").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("order.placed paused")
    pauses = await shop.inspector.pauses()
    assert {str(each) for each in pauses} == {"order/9", "order.placed"}
    await page.goto(f"{shop.address}/workers")
    for left in (1, 0):
        await page.locator("table").last.get_by_role("button", name="Resume").first.click()
        await expect(page.get_by_role("button", name="Resume", exact=True)).to_have_count(left)
    assert await shop.inspector.pauses() == ()


@pytest.mark.requirement("E7")
async def test_a_worker_is_drained_and_resumed(page: Page, shop: Shop) -> None:
    await page.goto(f"{shop.address}/workers")
    await page.get_by_text("Drain", exact=True).click()
    await expect(page.locator("#list")).to_contain_text("No other worker takes records: they wait.")
    await page.get_by_role("button", name="Drain worker").click()
    await expect(page.locator("#list")).to_contain_text("drained")
    await shop.save(order(9, "placed"))
    await page.goto(f"{shop.address}/records/10")
    await expect(page.locator("#wait")).to_contain_text("drained")
    await page.goto(f"{shop.address}/workers")
    await page.get_by_role("button", name="Resume").click()
    await shop.until(10, RecordState.PUBLISHED)
    assert [action for action, *_ in await shop.audited()] == ["drain", "undrain"]


async def test_charts_and_numbers_change_by_themselves(page: Page, shop: Shop) -> None:
    await page.goto(shop.address)
    tile = page.get_by_role("region", name="Numbers").get_by_role("link", name="Failed")
    await expect(tile.locator(".value")).to_have_text("3")
    points = page.locator("#charts polyline.line-1").first
    drawn = await points.get_attribute("points") or ""
    await shop.save(mail(99))
    await expect(tile.locator(".value")).to_have_text("4")
    await expect(points).not_to_have_attribute("points", drawn)


async def test_the_page_of_a_record_follows_the_record(page: Page, shop: Shop) -> None:
    await page.goto(f"{shop.address}/records/3")
    await expect(page.get_by_role("heading", level=1)).to_have_text("order.shipped 3 parked")
    shop.publisher.declines = False
    blocker = (await shop.inspector.record("2")).record.id
    await Operations(shop.outbox, shop.engine).retry([blocker])
    await expect(page.get_by_role("heading", level=1)).to_have_text("order.shipped 3 delivered")
    await expect(page.locator("#journey")).to_contain_text("Delivered")


async def test_an_action_on_nothing_and_on_the_wrong_record_is_refused(
    visitor: Visitor, page: Page, shop: Shop
) -> None:
    visitor.expects("409: POST")
    await page.goto(f"{shop.address}/records")
    await page.get_by_role("button", name="Retry…").click()
    await expect(page.get_by_role("alert")).to_contain_text("No record is selected")
    await page.goto(f"{shop.address}/records")
    await page.get_by_label("Select record 1", exact=True).check()
    await page.get_by_role("button", name="Discard…").click()
    await expect(page.get_by_role("alert")).to_contain_text("discard is for records that are")
    assert not await shop.is_blocked(Key("order", "8"))
    assert await shop.audited() == []
