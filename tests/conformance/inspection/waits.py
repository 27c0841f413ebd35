"""One record, one key, one worker: what each waits for."""

from datetime import timedelta
from uuid import UUID

import pytest

from postroom.errors import RecordNotFoundError
from postroom.inspection import Wait, WaitReason, WorkerState
from tests.conformance.inspection.window import OUTAGE, Window
from tests.conformance.store.rig import MINUTE, partition_of


async def wait_of(window: Window, name: str) -> Wait:
    return (await window.inspector.record(str(await window.position(name)))).wait


class Waits:
    """What a record waits for."""

    @pytest.mark.requirement("E6")
    async def test_a_record_is_shown_with_all_that_is_known_of_it(self, window: Window) -> None:
        await window.put("a1", headers={"trace": "x"}, event_version=3)
        await window.note_attempt("a1", reason="first", retry_count=1)
        await window.note_attempt("a1", reason="second", retry_count=2, seconds=1.5)
        found = await window.inspector.record(str(await window.position("a1")))
        assert (found.payload, found.headers) == ({"name": "a1"}, {"trace": "x"})
        assert (found.event_version, found.max_retries) == (3, 10)
        assert found.partition == partition_of("a1")
        assert [(each.reason, each.retry_count) for each in found.attempts] == [
            ("first", 1),
            ("second", 2),
        ]
        assert found.attempts[1].duration == timedelta(seconds=1.5)

    async def test_a_record_is_found_by_id_prefix_or_position(self, window: Window) -> None:
        await window.put("a1", id=UUID("01a1e40f-0000-7000-8000-000000000001"))
        await window.put("a2", id=UUID("01a1e40f-0000-7000-8000-000000000002"))
        position = await window.position("a2")
        for name in (
            "01a1e40f-0000-7000-8000-000000000002",
            "01A1E40F000070008000000000000002",
            str(position),
        ):
            assert (await window.inspector.record(name)).record.event_type == "a2"
        await window.edit("a2", id=UUID("01a1e4ff-0000-7000-8000-000000000002"))
        assert (await window.inspector.record("01a1e4ff")).record.event_type == "a2"

    @pytest.mark.parametrize("name", ["01a1e40f", "0", "999999999", "ffff", "", "xyz", "1 OR 1"])
    async def test_a_name_that_is_not_one_record_is_refused(
        self, window: Window, name: str
    ) -> None:
        await window.put("a1", id=UUID("01a1e40f-0000-7000-8000-000000000001"))
        await window.put("a2", id=UUID("01a1e40f-0000-7000-8000-000000000002"))
        with pytest.raises(RecordNotFoundError, match=r"(no|several) records? ha(s|ve)"):
            await window.inspector.record(name)

    async def test_a_delivered_record_waits_for_nothing(self, window: Window) -> None:
        await window.put("a1")
        await window.deliver("a1")
        assert (await wait_of(window, "a1")).reason is WaitReason.NOTHING

    async def test_a_failed_record_waits_for_an_operator(self, window: Window) -> None:
        await window.put("a1")
        await window.refuse("a1", delay=None, reason="card expired.")
        wait = await wait_of(window, "a1")
        assert wait.reason is WaitReason.OPERATOR
        assert wait.text == (
            "An operator: it failed after 1 attempt: card expired. It blocks its key."
        )
        await window.operations.skip(await window.ids("a1"))
        assert "blocks" not in (await wait_of(window, "a1")).text

    async def test_a_refused_record_waits_for_its_time(self, window: Window) -> None:
        await window.put("a1")
        await window.refuse("a1", delay=5 * MINUTE, reason="busy")
        wait = await wait_of(window, "a1")
        assert (wait.reason, wait.text) == (
            WaitReason.TIME,
            "Its next try, in 5 min, after refusal 1: busy.",
        )
        assert wait.until is not None
        assert wait.until > window.now() + 4 * MINUTE

    async def test_a_delayed_record_waits_for_its_time(self, window: Window) -> None:
        await window.put("a1", ready=False, due_at=window.now() + 5 * MINUTE)
        wait = await wait_of(window, "a1")
        assert (wait.reason, wait.text) == (
            WaitReason.TIME,
            "Its time: it is delayed for another 5 min.",
        )

    @pytest.mark.requirement("E6")
    async def test_a_parked_record_waits_for_the_one_that_blocks_its_key(
        self, window: Window
    ) -> None:
        await window.put("a1", "a2", "a3")
        await window.refuse("a1", delay=None, reason="card expired")
        await window.claim()
        wait = await wait_of(window, "a3")
        assert (wait.reason, wait.between) == (WaitReason.BLOCKER, 1)
        assert wait.blocker is not None
        assert wait.blocker.event_type == "a1"
        assert wait.text.startswith("An earlier record of its key: a1 ")
        assert "(failed after 1 attempt, " in wait.text
        assert wait.text.endswith("): card expired; 1 record in between.")

    async def test_a_follower_that_is_not_parked_yet_waits_for_the_same(
        self, window: Window
    ) -> None:
        await window.put("a1", "a2")
        await window.refuse("a1")
        assert (await wait_of(window, "a2")).reason is WaitReason.BLOCKER

    async def test_a_paused_record_waits_for_an_operator(self, window: Window) -> None:
        await window.put("a1")
        await window.pause(key="a")
        wait = await wait_of(window, "a1")
        assert wait.reason is WaitReason.RESUME
        assert wait.text.startswith("An operator: suite/a was paused by eve at ")
        assert wait.text.endswith(" UTC (a release).")

    async def test_a_ready_record_waits_for_a_worker(self, window: Window) -> None:
        await window.put("a1")
        assert (await wait_of(window, "a1")).text == "A worker: none is running."
        await window.poll()
        wait = await wait_of(window, "a1")
        assert (wait.reason, wait.worker) == (WaitReason.DELIVERY, "ann")

    async def test_a_record_in_flight_says_so(self, window: Window) -> None:
        await window.put("a1")
        await window.poll()
        [id_] = await window.ids("a1")
        oldest = {"id": str(id_), "event_type": "a1", "key": "suite/a", "seconds": 12}
        await window.report(in_flight=1, oldest=oldest)
        assert "in flight at worker ann" in (await wait_of(window, "a1")).text

    async def test_a_record_waits_for_the_end_of_an_outage(self, window: Window) -> None:
        await window.put("a1")
        await window.poll()
        await window.report(publisher_outage=OUTAGE)
        wait = await wait_of(window, "a1")
        assert (wait.reason, wait.worker) == (WaitReason.OUTAGE, "ann")
        assert str(OUTAGE["reason"]) in wait.text

    @pytest.mark.requirement("E6")
    async def test_a_record_waits_for_an_operator_while_every_worker_is_drained(
        self, window: Window
    ) -> None:
        await window.put("a1")
        await window.poll()
        await window.operations.drain("ann")
        await window.poll()
        wait = await wait_of(window, "a1")
        assert (wait.reason, wait.worker) == (WaitReason.DRAINED, "ann")
        assert wait.text == (
            "An operator: worker ann was drained, and no other is running. Resume one, or start"
            " another."
        )
        await window.report(publisher_outage=OUTAGE)  # of no matter while it takes nothing
        assert (await wait_of(window, "a1")).reason is WaitReason.DRAINED
        await window.poll("bob")
        await window.operations.drain("bob")
        assert "all 2 workers were drained (ann, bob)." in (await wait_of(window, "a1")).text
        await window.operations.undrain("bob")
        assert (await wait_of(window, "a1")).reason is WaitReason.DELIVERY

    async def test_a_record_of_a_draining_worker_is_in_flight_or_left_to_others(
        self, window: Window
    ) -> None:
        await window.put("a1", "b1")
        await window.poll()
        await window.store.leases.report("bob", {})
        await window.operations.drain("ann")
        wait = await wait_of(window, "b1")
        assert (wait.reason, wait.worker) == (WaitReason.DELIVERY, "ann")
        assert wait.text.endswith("or another worker takes it when that one has finished.")
        await window.operations.drain("bob")
        [id_] = await window.ids("a1")
        oldest = {"id": str(id_), "event_type": "a1", "key": "suite/a", "seconds": 12}
        await window.report(in_flight=1, oldest=oldest)
        assert (await wait_of(window, "a1")).reason is WaitReason.DELIVERY
        assert (await wait_of(window, "b1")).reason is WaitReason.DRAINED

    async def test_a_record_of_a_silent_worker_waits_for_the_lease(self, window: Window) -> None:
        await window.put("a1")
        await window.poll()
        window.later(timedelta(seconds=20))
        wait = await wait_of(window, "a1")
        assert (wait.reason, wait.worker) == (WaitReason.LEASE, "ann")
        assert "missed its heartbeats" in wait.text


class WaitingKeys:
    """What a key waits for."""

    @pytest.mark.requirement("E6")
    async def test_a_blocked_key_names_the_record_its_error_and_how_many_wait(
        self, window: Window
    ) -> None:
        await window.put("a1", "a2", "a3")
        await window.refuse("a1", delay=None, reason="PaymentDeclined: card expired")
        await window.claim()
        await window.put("a4")
        report = await window.inspector.key("suite/a")
        assert report.blocked is not None
        assert (report.waiting, report.blocked.waiting) == (3, 3)
        [id_] = await window.ids("a1")
        text = str(report)
        assert text.startswith(f"suite/a is blocked by a1 {id_} (failed after 1 attempt, ")
        assert text.endswith("): PaymentDeclined: card expired; 3 records wait behind it.")

    async def test_a_key_that_is_not_blocked_names_the_next_record(self, window: Window) -> None:
        await window.put("a1", "a2")
        report = await window.inspector.key("suite/a")
        assert report.blocked is None
        assert report.first is not None
        assert (report.first.event_type, report.waiting) == ("a1", 1)
        assert report.wait is not None
        assert report.wait.reason is WaitReason.WORKER

    async def test_a_key_without_pending_records_says_so(self, window: Window) -> None:
        assert str(await window.inspector.key("suite/a")) == "suite/a has no record that waits."

    async def test_a_key_may_have_no_type_and_slashes(self, window: Window) -> None:
        await window.put("a1", aggregate_type=None, aggregate_id="x/y")
        assert (await window.inspector.key("/x/y")).first is not None
        assert (await window.inspector.key("x/y")).first is None


class Working:
    """Workers, pauses and the audit."""

    async def test_a_worker_with_leases_works_and_one_without_is_idle(self, window: Window) -> None:
        await window.poll("host:12:ab")
        await window.report("host:12:ab")
        assert [each.state for each in await window.inspector.workers()] in (
            [],  # SQLite: nothing was written
            [WorkerState.IDLE],
        )
        await window.put("a1")
        await window.poll("host:12:ab")
        [worker] = await window.inspector.workers()
        assert (worker.host, worker.pid) == ("host", 12)
        assert (worker.state, worker.partitions) == (WorkerState.WORKING, (partition_of("a1"),))
        assert worker.lease_until is not None

    async def test_a_report_is_read_whatever_version_wrote_it(self, window: Window) -> None:
        await window.put("a1")
        await window.poll()
        await window.report(in_flight=3, paused=True, listener="up", invented=1)
        [worker] = await window.inspector.workers()
        assert worker.report is not None
        assert (worker.report.in_flight, worker.report.listener) == (3, "up")
        assert worker.state is WorkerState.PAUSED

    @pytest.mark.requirement("E6")
    async def test_a_drained_worker_is_alive_and_takes_no_records(self, window: Window) -> None:
        await window.put("a1")
        await window.poll()
        await window.report(paused=True)
        for drained, state in (
            (True, WorkerState.DRAINING),
            (False, WorkerState.PAUSED),
            (True, WorkerState.DRAINING),
        ):
            change = window.operations.drain if drained else window.operations.undrain
            await change("ann")
            [worker] = await window.inspector.workers()
            assert (worker.state, worker.draining) == (state, drained)
            assert (worker.is_alive, worker.takes_records) == (True, not drained)
        await window.poll()
        [worker] = await window.inspector.workers()
        assert (worker.state, worker.partitions) == (WorkerState.DRAINED, ())
        window.later(2 * MINUTE)
        [worker] = await window.inspector.workers()
        assert (worker.state, worker.draining) == (WorkerState.MISSING, True)
        assert not worker.takes_records

    @pytest.mark.requirement("E6")
    async def test_a_worker_that_stops_without_a_word_is_missing_then_gone(
        self, window: Window
    ) -> None:
        await window.put("a1")
        await window.poll()
        await window.report(in_flight=1)
        window.later(timedelta(seconds=20))
        [worker] = await window.inspector.workers()
        assert (worker.state, worker.is_alive) == (WorkerState.MISSING, False)
        window.later(6 * MINUTE)
        [worker] = await window.inspector.workers()
        assert worker.state is WorkerState.GONE

    async def test_changes_are_listed_the_newest_first(self, window: Window) -> None:
        for number in (1, 2, 3):
            await window.sql(
                "INSERT INTO suite_outbox_audit (operator, host, action, target, records, details)"
                f" VALUES ('eve', 'laptop', 'retry', '{number}', {number}, '{{\"a\": 1}}')"
            )
        changes = await window.inspector.audit(limit=2)
        assert [each.records for each in changes] == [3, 2]
        assert changes[0].details == {"a": 1}
        older = await window.inspector.audit(before=changes[-1].id)
        assert [each.records for each in older] == [1]
