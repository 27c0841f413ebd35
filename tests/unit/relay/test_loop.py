"""The loop of a relay, turn by turn: settle, poll, claim, send, wait."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from postroom.publishers.base import Refused
from postroom.record import ClaimedRecord
from postroom.relay.retry import RetrySchedule
from postroom.store.base import Lease, Unattended, Verdict
from tests.unit.relay.bench import CAPACITY, Bench
from tests.unit.relay.fake_publisher import Answer, delivers_all
from tests.unit.relay.hand_clock import START
from tests.unit.relay.settings import SECOND


class Mistake(BaseException):
    """What no publisher may raise."""


async def test_records_are_claimed_sent_and_settled_and_the_leases_released() -> None:
    bench = Bench()
    bench.store.put(1, 2, 3)
    await bench.run(10)
    assert (bench.publisher.sent, bench.store.rows) == ([1, 2, 3], {})
    assert bench.store.names[:2] == ["poll", "claim"]
    assert bench.store.names[-1] == "release"
    assert (bench.tally.delivered, bench.loop.idle) == (3, True)


async def test_it_settles_before_it_polls_and_polls_before_it_claims() -> None:
    bench = Bench(seconds=1.0)  # when the next poll is due
    bench.store.put(1)
    bench.clock.at(0.5, lambda: bench.store.put(2))
    await bench.run(5)
    assert bench.at(1.0)[:3] == ["settle", "poll", "claim"]


async def test_with_nothing_to_do_it_only_polls_once_per_interval() -> None:
    bench = Bench(poll_interval=30 * SECOND)
    await bench.run(100)
    assert [each.at for each in bench.store.calls] == [0, 30, 60, 90, 100]
    assert bench.store.names == ["poll"] * 4 + ["release"]


async def test_the_next_of_a_key_does_not_wait_for_a_settlement() -> None:
    bench = Bench()
    bench.store.put(*range(1, 6), key="a")
    bench.store.takes["settle"] = 0.1
    await bench.run(5)
    assert bench.publisher.sent == [1, 2, 3, 4, 5]
    assert len(bench.store.named("settle")) < 5


async def test_a_mistake_in_a_delivery_ends_the_loop_and_releases_the_leases() -> None:
    bench = Bench()
    bench.store.put(1)

    def reply(records: Sequence[ClaimedRecord]) -> Sequence[Answer]:
        raise Mistake

    bench.publisher.reply = reply
    with pytest.raises(Mistake):
        await bench.run(5)
    assert bench.store.names[-1] == "release"


# -- polls


async def test_the_partitions_of_held_records_are_kept_when_it_polls() -> None:
    bench = Bench(seconds=2.5)
    bench.store.put(1, partition=7)
    await bench.run(2)
    assert [each.values["busy"] for each in bench.store.named("poll")][:2] == [set(), {7}]


async def test_an_idle_partition_is_kept_for_a_while_if_there_is_no_other_worker() -> None:
    bench = Bench()
    bench.store.put(1, partition=7)
    await bench.run(10)
    kept = [each.at for each in bench.store.named("poll") if each.values["busy"] == {7}]
    assert kept
    assert 4 <= max(kept) < 5


async def test_the_surplus_is_not_claimed_from_and_is_released_at_once() -> None:
    bench = Bench()
    bench.store.share = 1
    for partition in (1, 2, 3):
        bench.store.put(partition, partition=partition)
    await bench.run(0.5)
    first, second = bench.store.named("poll")[:2]
    assert (first.values["surplus"], len(second.values["surplus"])) == (set(), 2)
    assert second.at == 0
    assert (
        set(bench.store.named("claim")[0].values["tokens"]) == {1, 2, 3} - second.values["surplus"]
    )


async def test_records_of_a_lost_lease_are_dropped_unless_they_are_in_flight() -> None:
    bench = Bench(max_in_flight=1)
    bench.publisher.reply = None
    bench.store.put(1, 2, 3)

    def lose() -> None:
        bench.store.held_leases[1] = Lease(partition=1, token=2)  # somebody had it in between

    bench.clock.at(0.5, lose)
    bench.clock.at(1.5, bench.publisher.deliver)
    await bench.run(2)
    held = [(each.at, each.values["held"]) for each in bench.store.named("claim")]
    assert (1.0, {1}) in held
    [settled] = bench.store.named("settle")
    assert settled.values["blocks_key"] == [1]  # another worker may have blocked its key
    assert settled.values["late"] == [1]


async def test_the_partitions_of_a_worker_that_missed_its_heartbeats_are_noted() -> None:
    bench = Bench(poll_interval=SECOND)
    missing = Unattended(worker="w2", partitions=3, until=datetime(2026, 1, 5, 12, tzinfo=UTC))
    bench.clock.at(1.5, lambda: setattr(bench.store, "unattended", (missing,)))
    problems: list[tuple[str, float] | None] = []
    bench.clock.at(3.5, lambda: problems.append(bench.tally.problem(bench.clock.now)))
    bench.clock.at(4.5, lambda: setattr(bench.store, "unattended", ()))
    await bench.run(6)
    assert problems == [(str(missing), 1.5)]
    assert bench.tally.problem(bench.clock.now) is None


# -- claims


async def test_claims_fill_the_capacity_and_no_more() -> None:
    bench = Bench()
    bench.publisher.reply = None  # nothing is answered
    bench.store.put(*range(1, 101))
    await bench.run(5)
    assert [each.values["depth"] for each in bench.store.named("claim")] == [CAPACITY]
    assert bench.publisher.sent == [1, 2, 3, 4]


async def test_more_is_claimed_when_there_is_room_for_a_batch() -> None:
    bench = Bench(seconds=1.0, max_batch=4)
    bench.store.put(*range(1, 101))
    await bench.run(3.5)
    first, second = bench.store.named("claim")[:2]
    assert (first.at, first.values["depth"]) == (0, CAPACITY)
    # 4 are delivered each second; after 3 seconds, 12 of 24 places are free.
    assert (second.at, second.values["depth"]) == (3, 12)
    assert second.values["held"] == set(range(13, 25))


async def test_between_full_claims_it_reads_on_from_where_it_was() -> None:
    bench = Bench(seconds=0.05)
    bench.store.takes["claim"] = 0.02
    bench.store.put(*range(1, 1001))
    await bench.run(10)
    claims = bench.store.named("claim")
    full = [each.at for each in claims if not each.values["floors"]]
    assert full[0] == 0
    assert len(full) <= len(claims) / 2 + 1
    gaps = [later - earlier for earlier, later in pairwise(full)]
    assert all(0.2 <= gap <= 1.0 for gap in gaps)  # ten times as long as a full claim takes
    for each in claims:
        if each.values["floors"]:
            assert set(each.values["floors"]) == {1}


async def test_it_is_idle_after_a_claim_of_all_partitions_that_finds_nothing() -> None:
    bench = Bench()
    bench.store.put(1)  # the lease is kept for a while after it
    idle: list[bool] = []
    bench.clock.at(1.5, lambda: idle.append(bench.loop.idle))
    await bench.run(3.5)
    assert idle == [True]
    assert bench.at(0) == ["poll", "claim", "settle"]
    assert [bench.at(second) for second in (1, 2, 3)] == [["poll", "claim"]] * 3


async def test_a_commit_in_partitions_that_it_leases_is_claimed_without_a_poll() -> None:
    bench = Bench()
    bench.store.put(1, partition=7)
    bench.store.put(2, partition=9)
    bench.clock.at(2.5, lambda: bench.store.put(1000, partition=7))
    bench.clock.at(2.5, lambda: bench.loop.wake({7}))
    await bench.run(2.9)
    assert bench.at(2.5) == ["claim", "settle"]
    assert bench.store.named("claim")[-1].values["tokens"].keys() == {7}
    assert bench.publisher.sent == [1, 2, 1000]


async def test_a_commit_in_a_partition_that_it_does_not_lease_is_found_by_a_poll() -> None:
    bench = Bench()
    bench.store.put(1, partition=7)
    bench.clock.at(2.5, lambda: bench.store.put(1000, partition=8))
    bench.clock.at(2.5, lambda: bench.loop.wake({7, 8}))
    await bench.run(2.6)
    assert bench.at(2.5)[:2] == ["poll", "claim"]
    assert 1000 in bench.publisher.sent


async def test_a_commit_while_its_lease_is_given_up_is_found_by_another_poll() -> None:
    bench = Bench()
    bench.store.put(1, partition=7)

    def commit_late() -> None:
        if 7 not in bench.store.leased and 1000 not in bench.store.rows:
            bench.store.put(1000, partition=7)
            bench.loop.wake({7})

    bench.store.after_look = commit_late
    await bench.run(12)
    assert 1000 in bench.publisher.sent


async def test_a_commit_soon_after_a_full_claim_is_fully_claimed_when_that_is_possible() -> None:
    bench = Bench()
    bench.store.put(100, partition=7)
    bench.store.takes.update(claim=0.05)  # so that a full claim is due half a second later
    bench.clock.at(1.2, lambda: bench.store.put(50, partition=7))  # below the floor
    bench.clock.at(1.2, lambda: bench.loop.wake({7}))
    await bench.run(1.95)
    assert 50 in bench.publisher.sent


async def test_outcomes_are_settled_together_after_a_pause() -> None:
    bench = Bench(seconds=0.025)
    bench.store.put(*range(1, 11), key="a")  # one after the other
    await bench.run(1)
    settled = [
        (round(each.at, 3), each.values["delivered"]) for each in bench.store.named("settle")
    ]
    assert settled == [
        (0.025, [1]),
        (0.125, [2, 3, 4, 5]),
        (0.225, [6, 7, 8, 9]),
        (0.3, [10]),  # sooner: nothing is in flight
    ]


async def test_single_events_are_settled_between_them_and_delay_none() -> None:
    bench = Bench(seconds=0.005)
    bench.store.put(1, partition=7)
    for number in range(1, 15):
        at = round(0.02 * number, 3)
        bench.clock.at(at, lambda each=number: bench.store.put(1000 + each, partition=7))  # type: ignore[misc]
        bench.clock.at(at, lambda: bench.loop.wake({7}))
    await bench.run(0.29)
    assert [round(each.at, 3) for each in bench.store.named("settle")] == [
        0.005,
        0.085,
        0.165,
        0.245,
        0.29,
    ]


async def test_run_once_does_not_wait_for_more_when_nothing_is_in_flight() -> None:
    bench = Bench(seconds=0.025, drain=True)
    bench.store.put(*range(1, 4), key="a")
    await bench.run(1)
    settled = [
        (round(each.at, 3), each.values["delivered"]) for each in bench.store.named("settle")
    ]
    assert settled == [(0.025, [1]), (0.075, [2, 3])]


# -- records that are not delivered


async def test_a_refused_record_is_tried_again_when_it_is_time_and_its_key_waits() -> None:
    bench = Bench(retry=RetrySchedule.seconds(5, 10))
    bench.store.put(1, 2, key="a")
    bench.publisher.reply = lambda records: (
        [Refused("no route")] if bench.clock.now < START + 4 else delivers_all(records)
    )
    await bench.run(10)
    settled = [(each.at, each.values) for each in bench.store.named("settle")]
    assert [round(at, 3) for at, _ in settled] == [0, 5, 5.075]  # the later record is sent at once
    assert [each["attempts"] for _, each in settled] == [{1: Verdict.RETRY}, {}, {}]
    assert [each["delivered"] for _, each in settled] == [[], [1], [2]]
    assert (bench.publisher.sent, bench.store.rows) == ([1, 1, 2], {})
    assert (bench.tally.delivered, bench.tally.retried) == (2, 1)


async def test_the_later_records_of_a_key_go_on_after_one_failed_if_so_set() -> None:
    bench = Bench(on_failed="continue")
    bench.store.put(1, 2, 3, key="a")
    bench.publisher.reply = lambda records: (
        [Refused("bad", permanent=True)] if records[0].position == 1 else delivers_all(records)
    )
    await bench.run(0.5)
    assert (bench.store.failed, bench.publisher.sent) == ([1], [1, 2, 3])
    assert (bench.tally.delivered, bench.tally.failed) == (2, 1)


async def test_an_attempt_under_a_lost_lease_is_neither_counted_nor_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(retry=RetrySchedule.seconds(100))
    bench.store.put(1)
    bench.store.writes_attempts = False
    bench.publisher.reply = lambda records: [Refused("no route")]
    await bench.run(0.5)
    assert bench.store.named("settle")
    assert (bench.tally.retried, caplog.messages) == (0, [])
