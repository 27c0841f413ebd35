"""The worker hears of a commit; it does not have to come across it."""

import asyncio
from functools import partial

import psycopg
import pytest

from tests.examples.messaging.account import Account
from tests.examples.messaging.arrivals import Arrivals
from tests.examples.messaging.database import Database
from tests.support.command import Command
from tests.support.waiting import PATIENCE, eventually


@pytest.mark.requirement("C7")
async def test_a_worker_that_polls_every_ten_minutes_delivers_at_once(
    account: Account, arrivals: Arrivals, worker: Command, database: Database
) -> None:
    assert "polls every 600 s" in worker.err
    for _ in range(5):  # one could be there in time for the poll with which it starts
        message_id = (await account.group_message())["id"]
        await arrivals.of(message_id, 1)
        await eventually(partial(database.is_published, message_id))


@pytest.mark.requirement("C7")
async def test_the_wake_up_is_sent_when_the_message_is_committed(
    account: Account, database: Database
) -> None:
    body = await account.group_message_body()
    with database.listening("outbox_channel") as listener:
        heard = asyncio.create_task(asyncio.to_thread(first_of, listener))
        await account.post("/group-messages", **body)
        assert (await heard).channel == "outbox_channel"
    assert database.left_behind(account.id) == (1, 1)


def first_of(listener: psycopg.Connection) -> psycopg.Notify:
    """Wait for the first notification."""
    [notification] = listener.notifies(timeout=PATIENCE, stop_after=1)
    return notification
