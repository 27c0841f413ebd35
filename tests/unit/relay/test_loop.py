"""The loop of a relay, turn by turn: settle, poll, claim, send, wait."""

import logging
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import pytest

from postroom.publishers.base import Refused
from postroom.record import ClaimedRecord
from postroom.relay.heartbeat import report_of
from postroom.relay.retry import RetrySchedule
from postroom.store.base import Lease, Verdict
from tests.unit.relay.fake_publisher import Answer, delivers_all
from tests.unit.relay.faked_loop import CAPACITY, FakedLoop
from tests.unit.relay.hand_clock import START
from tests.unit.relay.settings import SECOND


class Mistake(BaseException):
    """What no publisher may raise."""


async def test_records_are_claimed_sent_and_settled_and_the_leases_released() -> None:
    faked = FakedLoop()
    faked.store.put(1, 2, 3)
    await faked.run(10)
    assert (faked.publisher.sent, faked.store.rows) == ([1, 2, 3], {})
    assert faked.store.names[:2] == ["poll", "claim"]
    assert faked.store.names[-1] == "release"
    assert (faked.tally.delivered, faked.loop.idle) == (3, True)


async def test_it_settles_before_it_polls_and_polls_before_it_claims() -> None:
    faked = FakedLoop(seconds=1.0)  # when the next poll is due
    faked.store.put(1)
    faked.clock.at(0.5, lambda: faked.store.put(2))
    await faked.run(5)
    assert faked.at(1.0)[:3] == ["settle", "poll", "claim"]


async def test_with_nothing_to_do_it_only_polls_once_per_interval() -> None:
    faked = FakedLoop(poll_interval=30 * SECOND)
    await faked.run(100)
    assert [each.at for each in faked.store.calls] == [0, 30, 60, 90, 100]
    assert faked.store.names == ["poll"] * 4 + ["release"]


async def test_the_next_of_a_key_does_not_wait_for_a_settlement() -> None:
    faked = FakedLoop()
    faked.store.put(*range(1, 6), key="a")
    faked.store.takes["settle"] = 0.1
    await faked.run(5)
    assert faked.publisher.sent == [1, 2, 3, 4, 5]
    assert len(faked.store.named("settle")) < 5


async def test_a_mistake_in_a_delivery_ends_the_loop_and_releases_the_leases() -> None:
    faked = FakedLoop()
    faked.store.put(1)

    def reply(records: Sequence[ClaimedRecord]) -> Sequence[Answer]:
        raise Mistake

    faked.publisher.reply = reply
    with pytest.raises(Mistake):
        await faked.run(5)
    assert faked.store.names[-1] == "release"


# -- polls


async def test_the_partitions_of_held_records_are_kept_when_it_polls() -> None:
    faked = FakedLoop(seconds=2.5)
    faked.store.put(1, partition=7)
    await faked.run(2)
    assert [each.values["busy"] for each in faked.store.named("poll")][:2] == [set(), {7}]


async def test_an_idle_partition_is_kept_for_a_while_if_there_is_no_other_worker() -> None:
    faked = FakedLoop()
    faked.store.put(1, partition=7)
    await faked.run(10)
    kept = [each.at for each in faked.store.named("poll") if each.values["busy"] == {7}]
    assert kept
    assert 4 <= max(kept) < 5


async def test_the_surplus_is_not_claimed_from_and_is_released_at_once() -> None:
    faked = FakedLoop()
    faked.store.share = 1
    for partition in (1, 2, 3):
        faked.store.put(partition, partition=partition)
    await faked.run(0.5)
    first, second = faked.store.named("poll")[:2]
    assert (first.values["surplus"], len(second.values["surplus"])) == (set(), 2)
    assert second.at == 0
    assert (
        set(faked.store.named("claim")[0].values["tokens"]) == {1, 2, 3} - second.values["surplus"]
    )


async def test_records_of_a_lost_lease_are_dropped_unless_they_are_in_flight() -> None:
    faked = FakedLoop(max_in_flight=1)
    faked.publisher.reply = None
    faked.store.put(1, 2, 3)

    def lose() -> None:
        faked.store.held_leases[1] = Lease(partition=1, token=2)  # somebody had it in between

    faked.clock.at(0.5, lose)
    faked.clock.at(1.5, faked.publisher.deliver)
    await faked.run(2)
    held = [(each.at, each.values["held"]) for each in faked.store.named("claim")]
    assert (1.0, {1}) in held
    [settled] = faked.store.named("settle")
    assert settled.values["delivered"] == [1]


async def test_a_worker_that_stands_by_says_so_once_and_in_its_report(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    faked = FakedLoop(poll_interval=SECOND)
    reports: list[object] = []
    for second, active in enumerate(("w2", None, "w2", "w3", None)):
        faked.clock.at(second + 0.5, partial(setattr, faked.store, "active", active))
        faked.clock.at(second + 1.4, lambda: reports.append(report_of(faked.loop, 0)["active"]))
    await faked.run(6)
    assert reports == ["w2", None, "w2", "w3", None]
    lines = [each for each in caplog.messages if "stands by while worker" in each]
    assert ["w2" in each for each in lines] == [True, False]


async def test_what_others_postponed_is_retried_when_their_partitions_are_taken_over() -> None:
    faked = FakedLoop()
    faked.store.held_leases[2] = Lease(partition=2, token=7)
    faked.store.put(1, partition=1)
    faked.store.put(2, partition=2)
    await faked.run(2)
    [retried] = faked.store.named("retry_postponed")
    assert retried.values["partitions"] == {2}
    assert faked.store.rows == {}


async def test_claims_fill_the_capacity_and_no_more() -> None:
    faked = FakedLoop()
    faked.publisher.reply = None  # nothing is answered
    faked.store.put(*range(1, 101))
    await faked.run(5)
    assert [each.values["depth"] for each in faked.store.named("claim")] == [CAPACITY]
    assert faked.publisher.sent == [1, 2, 3, 4]


async def test_more_is_claimed_when_there_is_room_for_a_batch() -> None:
    faked = FakedLoop(seconds=1.0, max_batch=4)
    faked.store.put(*range(1, 101))
    await faked.run(3.5)
    first, second = faked.store.named("claim")[:2]
    assert (first.at, first.values["depth"]) == (0, CAPACITY)
    # 4 are delivered each second; after 3 seconds, 12 of 24 places are free.
    assert (second.at, second.values["depth"]) == (3, 12)
    assert second.values["held"] == set(range(13, 25))


async def test_between_full_claims_it_reads_on_from_where_nobody_can_commit_any_more() -> None:
    faked = FakedLoop(seconds=0.05)
    faked.store.takes["claim"] = 0.1
    faked.store.put(*range(1, 1001))
    faked.store.open_writers = {"one"}
    faked.clock.at(3.5, lambda: setattr(faked.store, "open_writers", set()))
    await faked.run(10)
    claims = faked.store.named("claim")
    floors = {each.at: each.values["floors"].get(1, 0) for each in claims}
    assert {floor for at, floor in floors.items() if at < 3.5} == {0}
    assert max(floors.values()) > 0
    full = [each.at for each in claims if each.at > 5 and not each.values["floors"]]
    gaps = [later - earlier for earlier, later in pairwise(full)]
    assert all(gap >= 1.0 for gap in gaps)  # ten times as long as a full claim takes


async def test_a_partition_that_others_have_held_meanwhile_is_claimed_from_its_start() -> None:
    """Between two polls. That worker may have released records below the floor."""
    faked = FakedLoop(seconds=0.05)
    faked.store.takes["claim"] = 0.1
    faked.store.put(*range(1, 1001))
    held_again = Lease(partition=1, token=3)
    faked.clock.at(4.5, lambda: faked.store.held_leases.update({1: held_again}))
    await faked.run(10)
    claims = [each.values for each in faked.store.named("claim")]
    before = [each for each in claims if each["tokens"] == {1: 1}]
    after = [each for each in claims if each["tokens"] == {1: 3}]
    assert (before[-1]["floors"].get(1, 0) > 0, after[0]["floors"]) == (True, {})


async def test_what_is_not_in_flight_is_dropped_when_the_database_is_another_one() -> None:
    faked = FakedLoop(max_in_flight=1)
    faked.publisher.reply = None
    faked.store.put(1, 2, 3)

    def restore() -> None:
        faked.store.server += 1
        del faked.store.rows[2]

    faked.clock.at(0.5, restore)
    faked.clock.at(1.5, faked.publisher.deliver)
    faked.clock.at(1.4, lambda: setattr(faked.publisher, "reply", delivers_all))
    await faked.run(4)
    assert faked.publisher.sent == [1, 3]
    assert faked.store.rows == {}


async def test_it_is_idle_after_a_claim_of_all_partitions_that_finds_nothing() -> None:
    faked = FakedLoop()
    faked.store.put(1)  # the lease is kept for a while after it
    idle: list[bool] = []
    faked.clock.at(1.5, lambda: idle.append(faked.loop.idle))
    await faked.run(3.5)
    assert idle == [True]
    assert faked.at(0) == ["poll", "claim", "settle"]
    assert [faked.at(second) for second in (1, 2, 3)] == [["poll", "claim"]] * 3


async def test_a_commit_in_partitions_that_it_leases_is_claimed_without_a_poll() -> None:
    faked = FakedLoop()
    faked.store.put(1, partition=7)
    faked.store.put(2, partition=9)
    faked.clock.at(2.5, lambda: faked.store.put(1000, partition=7))
    faked.clock.at(2.5, lambda: faked.loop.wake({7}))
    await faked.run(2.9)
    assert faked.at(2.5) == ["claim", "settle"]
    assert faked.store.named("claim")[-1].values["tokens"].keys() == {7}
    assert faked.publisher.sent == [1, 2, 1000]


async def test_a_commit_in_a_partition_that_it_does_not_lease_is_found_by_a_poll() -> None:
    faked = FakedLoop()
    faked.store.put(1, partition=7)
    faked.clock.at(2.5, lambda: faked.store.put(1000, partition=8))
    faked.clock.at(2.5, lambda: faked.loop.wake({7, 8}))
    await faked.run(2.6)
    assert faked.at(2.5)[:2] == ["poll", "claim"]
    assert 1000 in faked.publisher.sent


async def test_a_commit_while_its_lease_is_given_up_is_found_by_another_poll() -> None:
    faked = FakedLoop()
    faked.store.put(1, partition=7)

    def commit_late() -> None:
        if 7 not in faked.store.leased and 1000 not in faked.store.rows:
            faked.store.put(1000, partition=7)
            faked.loop.wake({7})

    faked.store.after_look = commit_late
    await faked.run(12)
    assert 1000 in faked.publisher.sent


async def test_a_commit_soon_after_a_full_claim_is_fully_claimed_when_that_is_possible() -> None:
    faked = FakedLoop()
    faked.store.put(100, partition=7)
    faked.store.takes.update(claim=0.05)  # so that a full claim is due half a second later
    faked.clock.at(1.2, lambda: faked.store.put(50, partition=7))  # below the floor
    faked.clock.at(1.2, lambda: faked.loop.wake({7}))
    await faked.run(1.95)
    assert 50 in faked.publisher.sent


async def test_outcomes_are_settled_together_after_a_pause() -> None:
    faked = FakedLoop(seconds=0.025)
    faked.store.put(*range(1, 11), key="a")  # one after the other
    await faked.run(1)
    settled = [
        (round(each.at, 3), each.values["delivered"]) for each in faked.store.named("settle")
    ]
    assert settled == [
        (0.025, [1]),
        (0.125, [2, 3, 4, 5]),
        (0.225, [6, 7, 8, 9]),
        (0.3, [10]),  # sooner: nothing is in flight
    ]


async def test_single_events_are_settled_between_them_and_delay_none() -> None:
    faked = FakedLoop(seconds=0.005)
    faked.store.put(1, partition=7)
    for number in range(1, 15):
        at = round(0.02 * number, 3)
        faked.clock.at(at, lambda each=number: faked.store.put(1000 + each, partition=7))  # type: ignore[misc]
        faked.clock.at(at, lambda: faked.loop.wake({7}))
    await faked.run(0.29)
    assert [round(each.at, 3) for each in faked.store.named("settle")] == [
        0.005,
        0.085,
        0.165,
        0.245,
        0.29,
    ]


async def test_run_once_does_not_wait_for_more_when_nothing_is_in_flight() -> None:
    faked = FakedLoop(seconds=0.025, drain=True)
    faked.store.put(*range(1, 4), key="a")
    await faked.run(1)
    settled = [
        (round(each.at, 3), each.values["delivered"]) for each in faked.store.named("settle")
    ]
    assert settled == [(0.025, [1]), (0.075, [2, 3])]


# -- records that are not delivered


async def test_a_refused_record_is_tried_again_when_it_is_time_and_its_key_waits() -> None:
    faked = FakedLoop(retry=RetrySchedule.seconds(5, 10))
    faked.store.put(1, 2, key="a")
    faked.publisher.reply = lambda records: (
        [Refused("no route")] if faked.clock.now < START + 4 else delivers_all(records)
    )
    await faked.run(10)
    settled = [(each.at, each.values) for each in faked.store.named("settle")]
    assert [round(at, 3) for at, _ in settled] == [0, 5, 5.075]  # the later record is sent at once
    assert [each["attempts"] for _, each in settled] == [{1: Verdict.RETRY}, {}, {}]
    assert [each["delivered"] for _, each in settled] == [[], [1], [2]]
    assert (faked.publisher.sent, faked.store.rows) == ([1, 1, 2], {})
    assert (faked.tally.delivered, faked.tally.retried) == (2, 1)


async def test_the_later_records_of_a_key_go_on_after_one_failed_if_so_set() -> None:
    faked = FakedLoop(on_failed="continue")
    faked.store.put(1, 2, 3, key="a")
    faked.publisher.reply = lambda records: (
        [Refused("bad", permanent=True)] if records[0].position == 1 else delivers_all(records)
    )
    await faked.run(0.5)
    assert (faked.store.failed, faked.publisher.sent) == ([1], [1, 2, 3])
    assert (faked.tally.delivered, faked.tally.failed) == (2, 1)


async def test_an_attempt_under_a_lost_lease_is_neither_counted_nor_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faked = FakedLoop(retry=RetrySchedule.seconds(100))
    faked.store.put(1)
    faked.store.writes_attempts = False
    faked.publisher.reply = lambda records: [Refused("no route")]
    await faked.run(0.5)
    assert faked.store.named("settle")
    assert (faked.tally.retried, caplog.messages) == (0, [])
