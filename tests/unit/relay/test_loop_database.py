"""The loop while the database is unavailable, or another transaction holds a lock."""

import asyncio
from functools import partial
from typing import cast

import pytest
from sqlalchemy.exc import DBAPIError

from postroom.publishers.base import Refused
from postroom.relay.delivery import LOCK_PAUSE
from postroom.relay.health import Health
from postroom.relay.heartbeat import beat
from postroom.store.store import Store
from tests.support.waiting import PATIENCE
from tests.unit.relay.fake_store import LockTimeout, lock_timeout, refused_connection
from tests.unit.relay.faked_loop import FakedLoop
from tests.unit.relay.hand_clock import START
from tests.unit.relay.settings import SECOND


async def test_records_that_are_not_locked_are_settled_without_those_that_are() -> None:
    faked = FakedLoop()
    faked.store.put(1, 2, 3)
    faked.store.locked_rows.add(2)
    faked.store.fail("settle", lock_timeout, times=1)
    faked.clock.at(5, faked.store.locked_rows.clear)
    await faked.run(10)
    settled = [each.values["delivered"] for each in faked.store.named("settle")]
    assert settled == [[1, 2, 3], [1, 3], [2]]
    assert faked.database_breaker.state == "closed"


async def test_a_locked_record_that_is_deleted_is_not_waited_for() -> None:
    faked = FakedLoop()
    faked.store.put(1, 2)
    faked.store.locked_rows.add(2)
    faked.store.fail("settle", lock_timeout, times=1)

    def delete() -> None:
        faked.store.locked_rows.clear()
        faked.store.rows.clear()

    faked.clock.at(5, delete)
    await faked.run(10)
    assert faked.clock.now == START + 10  # there is nothing left to finish


async def test_locks_are_looked_at_twice_a_second_and_at_the_end() -> None:
    faked = FakedLoop(grace=SECOND)
    faked.store.put(1, 2)
    faked.store.locked_rows.add(2)
    faked.store.fail("settle", lock_timeout, times=1)
    await faked.run(2.2)
    looks = [each.at for each in faked.store.named("locked")]
    assert looks == [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.2]
    assert set(faked.store.rows) == {2}


async def test_a_settlement_that_meets_a_lock_is_kept_while_other_records_are_delivered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faked = FakedLoop()
    faked.store.put(1)
    faked.store.fail("settle", lock_timeout, times=4)
    faked.clock.at(0.7, lambda: faked.store.put(2, partition=2))
    faked.clock.at(0.7, faked.loop.wake)
    await faked.run(10)
    settled = [(each.at, each.values["delivered"]) for each in faked.store.named("settle")]
    assert settled == [(0, [1]), (0.5, [1]), (1, [1, 2]), (1.5, [1, 2]), (2, [1, 2])]
    assert LOCK_PAUSE == 0.5
    assert faked.publisher.sent == [1, 2]  # each once, the second before the first was settled
    assert faked.between("poll", 0.1, 2) >= 2
    assert faked.between("claim", 0.1, 2) >= 1
    assert faked.database_breaker.state == "closed"
    assert "1 of 1 settlements have to wait: another transaction holds a lock" in caplog.text
    assert "unavailable" not in caplog.text
    assert faked.store.rows == {}


async def test_a_settlement_that_meets_a_lock_sends_no_later_record_of_a_refused_key() -> None:
    faked = FakedLoop()
    faked.store.put(1, 2, key="a")
    faked.publisher.reply = lambda records: [Refused("no route")]
    faked.store.fail("settle", lock_timeout, times=4)
    await faked.run(2.5)
    assert set(faked.publisher.sent) == {1}


@pytest.mark.parametrize("method", ["settle", "poll", "claim"])
async def test_during_a_database_outage_it_waits_and_keeps_the_outcomes(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    faked = FakedLoop()
    faked.store.put(1, 2, 3)
    states: list[str] = []
    faked.clock.at(0.1, lambda: states.append(faked.database_breaker.state))
    faked.store.fail(method, refused_connection, times=5)
    await faked.run(60)
    assert (states, faked.database_breaker.state) == (["open"], "closed")
    assert (faked.publisher.sent, faked.store.rows) == ([1, 2, 3], {})  # nothing twice
    assert "the database" in caplog.text
    assert "[Errno 111]" in caplog.text


async def test_after_an_outage_it_settles_as_if_another_worker_might_hold_the_lease() -> None:
    """A standby that takes over may know an older lease, which has ended."""
    faked = FakedLoop()
    faked.store.put(1)
    faked.store.fail("settle", refused_connection, times=1)
    faked.clock.at(5, lambda: faked.store.put(2))
    faked.clock.at(5, faked.loop.wake)
    await faked.run(10)
    blocking = [each.values["blocking"] for each in faked.store.named("settle")]
    assert blocking == [[], [1], []]


@pytest.mark.parametrize("method", ["poll", "claim"])
async def test_a_lock_that_a_poll_or_a_claim_meets_is_no_outage(
    method: str, caplog: pytest.LogCaptureFixture
) -> None:
    faked = FakedLoop()
    faked.store.put(1)
    faked.store.fail(method, lock_timeout, times=3)
    await faked.run(10)
    assert faked.publisher.sent == [1]
    assert "another transaction holds a lock" in caplog.text
    assert "unavailable" not in caplog.text


async def test_a_database_that_is_unavailable_is_not_tried_before_the_pause_is_over() -> None:
    faked = FakedLoop()
    faked.store.fail("poll", refused_connection, times=3)
    await faked.run(20)
    first, second, third, fourth, *_ = (each.at for each in faked.store.named("poll"))
    assert first == 0
    assert second >= 0.4
    assert third - second >= 0.8
    assert fourth - third >= 1.6


async def test_a_commit_during_a_database_outage_is_not_missed() -> None:
    faked = FakedLoop(poll_interval=1000 * SECOND)
    faked.clock.at(4, faked.store.go_away)
    faked.clock.at(5, lambda: faked.store.put(1))
    faked.clock.at(5, faked.loop.wake)
    faked.clock.at(9, faked.store.come_back)
    await faked.run(20)
    assert faked.publisher.sent == [1]


async def test_it_can_be_stopped_while_it_waits_for_the_database() -> None:
    faked = FakedLoop(seconds=2, grace=5 * SECOND)
    faked.store.put(1)
    faked.clock.at(1.5, faked.store.go_away)
    await faked.run(2.2)
    assert faked.clock.now == pytest.approx(START + 7.2)


async def test_what_the_end_of_the_grace_period_cuts_off_is_no_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faked = FakedLoop(grace=0 * SECOND)
    faked.store.put(1)
    asyncio.get_running_loop().call_later(0.01, faked.loop.stop)
    faked.store.hang("claim", asyncio.Event())
    await asyncio.wait_for(faked.loop.run(), PATIENCE)
    assert faked.store.names[-1] == "release"
    assert caplog.messages == []


async def test_an_error_that_waiting_cannot_cure_ends_the_loop() -> None:
    faked = FakedLoop()
    faked.store.put(1)
    faked.store.fail("claim", lambda: ValueError("a bug"))
    with pytest.raises(ValueError, match="a bug"):
        await faked.run(5)
    assert faked.store.names[-1] == "release"


async def test_once_its_leases_are_about_to_end_nothing_new_is_sent() -> None:
    faked = FakedLoop(max_in_flight=1, seconds=1.0, lease=10 * SECOND, batch_size=20)
    faked.store.put(*range(1, 31))
    faked.clock.at(2.5, faked.store.go_away)
    sent: list[int] = []
    faked.clock.at(30, lambda: sent.extend(faked.publisher.sent))
    faked.clock.at(30, faked.store.come_back)
    await faked.run(100)
    # The last poll was at 2 s, so that the lease could be used until 10 s.
    assert sent == list(range(1, 11))
    assert faked.publisher.sent == list(range(1, 31))


# -- with a heartbeat beside the loop


def disk_full() -> DBAPIError:
    """Return the error of a statement that finds no room on the disk."""
    error = LockTimeout("could not extend file: no space left on device")
    error.sqlstate = "53100"
    return DBAPIError("UPDATE outbox", {}, error)


async def beat_beside(faked: FakedLoop, seconds: float) -> None:
    heart = asyncio.create_task(beat(faked.loop, cast(Store, faked.store)))
    await faked.run(seconds)
    heart.cancel()
    await asyncio.wait([heart])


async def test_a_heartbeat_that_succeeds_does_not_end_an_outage_that_a_settlement_has_met(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faked = FakedLoop(lease=4 * SECOND)
    faked.store.put(1)
    faked.store.fail("settle", disk_full, times=8)
    await beat_beside(faked, 120)  # the pauses are 92 s in all, at most
    assert len(faked.store.named("settle")) == 9
    assert len(faked.store.named("renew")) > 5
    assert caplog.text.count("the database is available again") == 1
    assert faked.store.rows == {}


async def test_a_settlement_that_succeeds_does_not_end_an_outage_that_the_heartbeat_has_met(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faked = FakedLoop(lease=4 * SECOND)
    for second in range(9):
        faked.clock.at(second + 0.5, partial(faked.store.put, second + 1))
        faked.clock.at(second + 0.5, faked.loop.wake)
    faked.store.fail("renew", disk_full, times=5)
    await beat_beside(faked, 12)
    assert caplog.text.count("the database is available again") == 1
    assert faked.publisher.sent == list(range(1, 10))  # an outage of leases that are held still


async def test_polls_that_succeed_do_not_end_an_outage_that_a_claim_has_met(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faked = FakedLoop()
    faked.store.put(1)
    faked.store.fail("claim", disk_full, times=5)
    await faked.run(60)
    assert faked.publisher.sent == [1]
    assert caplog.text.count("the database is available again") == 1


async def test_the_end_of_an_outage_has_the_listener_connect_again() -> None:
    faked = FakedLoop()
    faked.store.put(1)
    faked.store.fail("settle", disk_full)
    again: list[bool] = []
    faked.clock.at(0.1, lambda: again.append(faked.database_breaker.recovered.is_set()))
    await faked.run(5)
    assert (again, faked.database_breaker.recovered.is_set()) == ([False], True)


@pytest.mark.parametrize("changed", ["42P01", "42501", "42703"])
async def test_a_table_that_is_missing_under_a_loop_is_waited_for(changed: str) -> None:
    def missing() -> DBAPIError:
        error = LockTimeout('relation "outbox" does not exist')
        error.sqlstate = changed
        return DBAPIError("SELECT", {}, error)

    faked = FakedLoop()
    faked.store.put(1)
    faked.store.fail("claim", missing, times=3)
    reasons: list[str | None] = []
    faked.clock.at(0.1, lambda: reasons.append(faked.loop.health().reason))
    await faked.run(20)
    assert reasons == ['the database is unavailable: relation "outbox" does not exist']
    assert faked.publisher.sent == [1]


async def test_a_lock_that_lasts_degrades_the_health_from_the_next_heartbeat_until_it_is_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faked = FakedLoop(lease=4 * SECOND)
    faked.store.put(1)
    faked.store.fail("claim", lock_timeout, times=6)
    healths: list[Health] = []
    for second in (0.5, 1.5, 10):
        faked.clock.at(second, lambda: healths.append(faked.loop.health()))
    await beat_beside(faked, 12)
    assert [each.status for each in healths] == ["ok", "degraded", "ok"]
    assert (
        healths[1].reason
        == "another transaction holds a lock on the same rows (on SQLite, on the file)"
    )
    assert healths[1].seconds
    assert caplog.text.count("nothing is delivered at the moment") == 1
