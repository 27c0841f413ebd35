"""What commands say of a failed record that somebody set to pending by hand, and do with it."""

import asyncio

import pytest
from sqlalchemy import text

from postroom import OutboxRelay
from tests.support.shop import outbox
from tests.support.shop_with_failures import DecliningPublisher, Shop, engine_of

pytestmark = pytest.mark.requirement("E6")

KEYED, KEYLESS = "2", "8"
BY_HAND = "UPDATE outbox SET status = 'pending', retry_count = 0 WHERE position = :position"


async def _repair(url: str, position: str) -> None:
    engine = engine_of(url)
    async with engine.begin() as connection:
        await connection.execute(text(BY_HAND), {"position": int(position)})
    await engine.dispose()


async def _deliver(url: str) -> list[int]:
    engine, publisher = engine_of(url), DecliningPublisher()
    publisher.declines = False
    await OutboxRelay(outbox, engine, publisher).run_once()
    await engine.dispose()
    return [record.position for record in publisher.delivered]


@pytest.fixture(params=[KEYED, KEYLESS], ids=["keyed", "without a key"])
def repaired(request: pytest.FixtureRequest, shop: Shop) -> str:
    """The position of a record that was repaired."""
    position = str(request.param)
    asyncio.run(_repair(shop.url, position))
    return position


def test_it_is_said_to_wait_for_a_worker_and_the_next_one_takes_it(
    shop: Shop, repaired: str
) -> None:
    document = shop.json("show", repaired)
    assert document["state"] in ("ready", "waiting")
    assert document["wait"]["reason"] == "worker"
    assert "failed" not in document["wait"]["text"]
    assert int(repaired) in asyncio.run(_deliver(shop.url))
    assert shop.json("show", repaired)["state"] == "published"


def test_its_key_is_said_to_wait_for_it(shop: Shop) -> None:
    asyncio.run(_repair(shop.url, KEYED))
    [first, *_] = shop.lines("why", "order/7")
    assert "failed" not in first
    assert "parked" not in first
    assert asyncio.run(_deliver(shop.url)) == [2, 3, 4, 5]


def test_it_can_be_retried(shop: Shop, repaired: str) -> None:
    assert "Retried 1 record." in shop.lines("retry", repaired, "--yes")
    delivered = asyncio.run(_deliver(shop.url))
    assert delivered == ([2, 3, 4, 5] if repaired == KEYED else [8])
