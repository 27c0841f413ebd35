"""The outbox in one look."""

from dataclasses import replace
from datetime import timedelta

import pytest

from postroom.inspection import Overview, WorkerState
from postroom.store.base import Settlement, Verdict
from tests.conformance.inspection.window import OUTAGE, ROUTE, Window, seconds
from tests.conformance.store.rig import MINUTE, attempt, numbered


def counts(overview: Overview) -> dict[str, int]:
    names = ("ready", "waiting", "parked", "paused", "failed")
    return {name: getattr(overview, name) for name in names if getattr(overview, name)}


class Overviews:
    """Counts, ages, rates, and what somebody should look at."""

    async def test_an_empty_outbox_is_healthy(self, window: Window) -> None:
        overview = await window.inspector.overview()
        assert (counts(overview), overview.healthy, overview.is_exact) == ({}, True, True)
        assert (overview.oldest_pending, overview.oldest_ready) == (None, None)
        assert (overview.blocked_keys, overview.in_per_minute) == (0, 0)

    @pytest.mark.requirement("E6")
    async def test_records_are_counted_by_what_they_wait_for(self, window: Window) -> None:
        await window.put("a1", "a2", "b1", "b2", "b3", "c1", ".1", ".2", ".3")
        await window.put("d1", ready=False, due_at=window.now() + MINUTE)
        await window.fail("a1")
        await window.refuse("b1", ".3")
        await window.deliver("c1")
        await window.claim()
        overview = await window.inspector.overview()
        assert counts(overview) == {"ready": 2, "waiting": 3, "parked": 3, "failed": 1}
        assert (overview.pending, overview.blocked_keys) == (8, 2)

    async def test_records_are_counted_by_type(self, window: Window) -> None:
        for event_type, number in (("paid", 3), ("sent", 1)):
            names = [f".{n}" for n in range(number)]
            await window.put(*names, event_type=event_type)
        [failed] = (await window.claim(depth=1)).records[:1]
        await window.refuse_one(failed)
        found = {each.event_type: each for each in (await window.inspector.overview()).event_types}
        assert {name: each.pending + each.failed for name, each in found.items()} == {
            "paid": 3,
            "sent": 1,
        }
        assert sum(each.failed for each in found.values()) == 1

    async def test_the_oldest_pending_record_gives_the_age(self, window: Window) -> None:
        await window.put("a1", "b1", "c1")
        await window.edit("a1", created_at=window.now() - 3 * MINUTE)
        await window.deliver("a1")
        await window.edit("b1", created_at=window.now() - 2 * MINUTE)
        overview = await window.inspector.overview()
        assert 110 < seconds(overview.oldest_pending) < 150
        assert overview.oldest_ready == overview.oldest_pending

    async def test_counts_beyond_the_search_limit_are_estimates(self, window: Window) -> None:
        await window.put(*numbered("a", 1, 30), *numbered("b", 1, 10), event_type="paid")
        await window.put(*numbered("c", 1, 10), event_type="sent")
        overview = await window.another_inspector(search_limit=20).overview()
        assert not overview.is_exact
        assert overview.ready == 50
        assert sum(each.pending for each in overview.event_types) == 50
        exact = await window.another_inspector(search_limit=51).overview()
        assert exact.is_exact
        assert {each.event_type: each.pending for each in exact.event_types} == {
            "paid": 40,
            "sent": 10,
        }

    async def test_the_latency_is_that_of_the_last_minute_s_deliveries(
        self, window: Window
    ) -> None:
        names = [f".{number}" for number in range(1, 101)]
        await window.put(*names, ".101", "a1")
        for number, name in enumerate(names, start=1):
            await window.edit(name, created_at=window.now() - timedelta(seconds=number))
        await window.deliver(*names)
        await window.deliver(".101")
        await window.edit(".101", published_at=window.now() - 2 * MINUTE)
        latency = await window.inspector.latency()
        assert latency.records == 100
        assert 49 < seconds(latency.p50) < 70
        assert 98 < seconds(latency.p99) < 119

    async def test_in_a_backlog_the_latency_is_that_of_what_was_delivered_before_it(
        self, window: Window, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("postroom.inspection.latency.LOOKED_AT", 3)
        await window.put("a1", "a2", ".1", ".2", ".3", ".4")
        await window.deliver("a1", "a2")
        assert (await window.another_inspector().latency()).records == 2

    async def test_without_deliveries_there_is_no_latency(self, window: Window) -> None:
        await window.put("a1")
        latency = await window.inspector.latency()
        assert (latency.records, latency.p50, latency.p99) == (0, None, None)

    async def test_publishers_are_known_by_the_reports_of_workers(self, window: Window) -> None:
        assert (await window.inspector.overview()).publishers == ()
        await window.put("a1")
        for worker in ("ann", "bob"):
            await window.poll(worker)
            await window.report(worker, publisher="RabbitMQ at mq")
        [state] = (await window.inspector.overview()).publishers
        assert (str(state), state.is_ok) == ("RabbitMQ at mq: ok", True)
        await window.report("ann", publisher="RabbitMQ at mq", publisher_outage=OUTAGE)
        states = (await window.inspector.overview()).publishers
        assert [each.is_ok for each in states if "unavailable" in each.text] == [False]

    async def test_what_is_paused_is_counted_apart(self, window: Window) -> None:
        await window.put("a1", "a2", "b1", ".1", "c1")
        await window.fail("c1")
        await window.pause(key="a")
        assert counts(await window.inspector.overview()) == {"ready": 2, "paused": 2, "failed": 1}
        await window.pause(event_type="b1")
        assert counts(await window.inspector.overview()) == {"ready": 1, "paused": 3, "failed": 1}
        await window.pause()
        overview = await window.inspector.overview()
        assert counts(overview) == {"paused": 4, "failed": 1}
        assert [str(each) for each in overview.pauses] == ["suite/a", "b1", "the outbox"]

    async def test_the_newest_records_give_the_rate_in(self, window: Window) -> None:
        await window.put("a1", "a2", "a3")
        await window.edit("a1", created_at=window.now() - 2 * MINUTE)
        assert (await window.inspector.overview()).in_per_minute == 2

    async def test_a_thousand_records_in_half_a_minute_are_two_thousand_a_minute(
        self, window: Window
    ) -> None:
        names = [f".{number}" for number in range(1000)]
        await window.put(*names, created_at=window.now() - MINUTE / 2)
        assert 1000 < (await window.inspector.overview()).in_per_minute <= 2000

    async def test_the_workers_reports_give_the_rate_out(self, window: Window) -> None:
        await window.put("a1", "b1")
        for worker in ("ann", "bob"):
            await window.poll(worker)
            await window.report(worker, per_minute=40)
        assert (await window.inspector.overview()).out_per_minute == 40 * len(
            await window.inspector.workers()
        )

    @pytest.mark.requirement("E6")
    async def test_failed_records_are_a_problem(self, window: Window) -> None:
        await window.put("a1", "b1")
        await window.fail("a1", "b1")
        assert await window.problems() == "2 records failed."

    async def test_a_key_that_is_blocked_for_a_minute_is_a_problem(self, window: Window) -> None:
        await window.put("a1", "a2")
        await window.refuse("a1")
        assert await window.problems() == ""
        window.later(3 * MINUTE)
        await window.poll()
        assert "1 key is blocked, the first for 3 min." in await window.problems()

    @pytest.mark.requirement("E1", "E6")
    async def test_a_quarantined_record_is_a_problem_until_it_is_delivered(
        self, window: Window
    ) -> None:
        await window.put("a1")
        [record] = await window.claimed("a1")
        await window.store.leases.suspect("ann", {record: 3})
        window.later(timedelta(minutes=1))
        await window.poll("bob")
        assert await window.problems() == ""  # it is tried once more, or quarantined, at once
        reason = "quarantined: 4 workers died in a row while they delivered it"
        [record] = await window.claimed("a1", worker="bob")
        quarantined = replace(attempt(record, reason=reason), verdict=Verdict.QUARANTINED)
        await window.store.settlements.settle(Settlement(worker="bob", attempts=[quarantined]))
        assert (await window.problems()).startswith(
            f"the record at position {record.position} is quarantined"
        )
        why = (await window.inspector.record(str(record.position))).wait.text
        assert "quarantined: 4 workers died in a row while they delivered it" in why
        assert f"postroom retry {record.position}" in why
        window.later(2 * MINUTE)
        await window.deliver("a1", worker="bob")
        assert await window.problems() == ""

    @pytest.mark.requirement("E6")
    async def test_a_suspect_that_was_refused_before_is_not_called_quarantined(
        self, window: Window
    ) -> None:
        await window.put("a1")
        [record] = await window.claimed("a1")
        await window.store.settlements.settle(Settlement(worker="ann", attempts=[attempt(record)]))
        window.later(2 * MINUTE)
        [record] = await window.claimed("a1", worker="bob")
        await window.store.leases.suspect("bob", {record: 1})
        assert "quarantined" not in await window.problems()

    async def test_records_that_are_ready_without_a_worker_are_a_problem(
        self, window: Window
    ) -> None:
        await window.put("a1")
        assert await window.problems() == ""
        window.later(2 * MINUTE)
        assert await window.problems() == (
            "no worker is running; 1 record has been ready for up to 2 min."
        )
        await window.poll()
        assert await window.problems() == ""

    @pytest.mark.requirement("E6")
    async def test_records_that_are_ready_while_every_worker_is_drained_are_a_problem(
        self, window: Window
    ) -> None:
        await window.put("a1")
        await window.poll()
        await window.operations.drain("ann")
        await window.poll()
        assert await window.problems() == ""
        window.later(2 * MINUTE)
        await window.poll()
        assert (await window.problems()).startswith("worker ann was drained")
        await window.store.leases.report("bob", {})
        assert await window.problems() == ""

    async def test_a_worker_that_holds_partitions_in_silence_is_a_problem(
        self, window: Window
    ) -> None:
        await window.put("a1")
        await window.poll()
        window.later(timedelta(seconds=20))
        [worker] = await window.inspector.workers()
        assert worker.state is WorkerState.MISSING
        problems = await window.problems()
        assert problems.startswith("worker ann ")
        assert problems.endswith("holds 1 partition.")

    async def test_a_worker_that_fell_silent_with_records_in_flight_is_a_problem(
        self, window: Window
    ) -> None:
        await window.put("a1")
        await window.poll()
        await window.report(in_flight=2)
        window.later(2 * MINUTE)
        await window.deliver("a1", worker="bob")
        assert await window.problems() == (
            "worker ann has missed its heartbeats for 2 min, and had 2 records in flight."
        )
        window.later(10 * MINUTE)
        assert await window.problems() == ""

    @pytest.mark.requirement("E6")
    async def test_an_outage_and_a_route_that_waits_are_problems(self, window: Window) -> None:
        await window.put("a1")
        await window.poll()
        await window.report(publisher_outage=OUTAGE, waiting_routes=[ROUTE])
        overview = await window.inspector.overview()
        assert overview.problems == (
            "worker ann delivers nothing, for 5 min: RabbitMQ at mq:5672 is unavailable.",
            "route shop/order.paid takes no records, for 10 min: queue full.",
        )
        assert [each.records for each in overview.waiting_routes] == [12]
