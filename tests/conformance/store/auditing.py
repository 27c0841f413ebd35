"""Every change by an operator is written down, in the transaction that makes it."""

import json
from typing import Any

import pytest

from postroom.operations import Operations, operations
from postroom.record import Key
from tests.conformance.store.rig import DAY, StoreRig, numbered, outbox


async def entries(rig: StoreRig) -> list[Any]:
    return list(await rig.sql("SELECT * FROM suite_outbox_audit ORDER BY id"))


def details(entry: Any) -> Any:
    """Read what a driver gives as JSON, or as text."""
    return json.loads(entry.details) if isinstance(entry.details, str) else entry.details


@pytest.mark.requirement("E16")
class Auditing:
    """Who has changed what, and when."""

    async def test_every_change_is_written_down(self, rig: StoreRig) -> None:
        ann = Operations(outbox, rig.engine, operator="ann", host="rig", channel=None)
        await rig.put("a1", "b1", "c1", "d1")
        await rig.fail("a1", "b1", "c1")
        await rig.deliver("d1")
        [a, b, c, d] = await rig.ids("a1", "b1", "c1", "d1")
        await ann.retry([a, b])
        await ann.skip([c])
        await ann.discard([b])
        await ann.replay([d])
        await ann.pause(key=Key("suite", "a"), reason="broken")
        await ann.resume(key=Key("suite", "a"))
        found = await entries(rig)
        assert {(entry.operator, entry.host) for entry in found} == {("ann", "rig")}
        assert [(entry.action, entry.target, entry.records) for entry in found] == [
            ("retry", "2 records by id", 2),
            ("skip", f"record {c}", 1),
            ("discard", f"record {b}", 1),
            ("replay", f"record {d}", 1),
            ("pause", "suite/a", 0),
            ("resume", "suite/a", 0),
        ]
        assert details(found[0]) == {"ids": [str(a), str(b)]}
        replayed = (await rig.row("d1")).headers["postroom-replay"]
        assert details(found[3]) == {"ids": [str(d)], "replay": replayed}
        assert details(found[4]) == {"reason": "broken"}

    async def test_a_purge_is_written_down(self, rig: StoreRig) -> None:
        await rig.put("a1", "b1")
        await rig.deliver("a1", "b1")
        rig.later(2 * DAY)
        await rig.operations.purge(older_than=DAY)
        [entry] = await entries(rig)
        assert (entry.action, entry.records) == ("purge", 2)
        assert entry.target == "records delivered more than 1 d ago"
        assert details(entry) == {"older_than_seconds": 86400}

    async def test_to_resume_is_written_down_with_the_records_that_wait_for_nothing_else(
        self, rig: StoreRig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(operations, "CHUNK", 2)
        await rig.put("a1", "a2", "b1", "c1", ".1", ".2", event_type="x")
        await rig.pause("x")
        await rig.claim()
        await rig.resume()
        assert [(entry.action, entry.target, entry.records) for entry in await entries(rig)] == [
            ("pause", "x", 0),
            ("resume", "x", 5),
        ]

    async def test_the_filter_that_records_were_chosen_by_is_written_down(
        self, rig: StoreRig
    ) -> None:
        await rig.put("a1")
        await rig.fail("a1")
        chosen_by = {"type": "Order*", "error": "declined"}
        await rig.operations.retry(await rig.ids("a1"), chosen_by=chosen_by)
        [entry] = await entries(rig)
        assert entry.target == "type Order*, error declined"
        assert details(entry) == {**chosen_by, "ids": [str(each) for each in await rig.ids("a1")]}

    async def test_what_changes_nothing_is_not_written_down(self, rig: StoreRig) -> None:
        await rig.put("a1")
        ids = await rig.ids("a1")
        for change in (rig.operations.retry, rig.operations.skip, rig.operations.replay):
            assert await change(ids) == 0
        assert await rig.operations.purge(older_than=DAY) == 0
        assert not await rig.operations.resume()
        assert await entries(rig) == []

    async def test_a_change_in_several_transactions_has_one_entry(
        self, rig: StoreRig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(operations, "CHUNK", 2)
        names = numbered("a", 1, 5)
        await rig.put(*names)
        told: list[int] = []
        await rig.operations.discard(await rig.ids(*names), progress=told.append)
        [entry] = await entries(rig)
        assert (entry.records, told) == (5, [2, 4, 5])
        assert len(details(entry)["ids"]) == 5

    async def test_the_entry_of_an_interrupted_change_says_what_was_changed(
        self, rig: StoreRig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(operations, "CHUNK", 2)
        names = numbered("a", 1, 5)
        await rig.put(*names)

        def interrupt(_: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            await rig.operations.discard(await rig.ids(*names), progress=interrupt)
        [entry] = await entries(rig)
        assert entry.records == 2
        assert list(await rig.rows()) == ["a3", "a4", "a5"]

    async def test_at_most_a_hundred_ids_are_listed(self, rig: StoreRig) -> None:
        names = numbered("a", 1, 101)
        await rig.put(*names)
        await rig.operations.discard(await rig.ids(*names))
        [entry] = await entries(rig)
        assert (entry.records, len(details(entry)["ids"])) == (101, 100)

    async def test_a_change_that_cannot_be_written_down_is_not_made(self, rig: StoreRig) -> None:
        await rig.put("a1")
        await rig.fail("a1")
        await rig.sql("ALTER TABLE suite_outbox_audit RENAME TO suite_outbox_elsewhere")
        try:
            with pytest.raises(Exception, match="suite_outbox_audit"):
                await rig.operations.retry(await rig.ids("a1"))
        finally:
            await rig.sql("ALTER TABLE suite_outbox_elsewhere RENAME TO suite_outbox_audit")
        assert (await rig.row("a1")).status == "failed"


class Pauses:
    """Rows of pauses; `Pausing` says what they do."""

    async def test_a_pause_says_who_when_and_why(self, rig: StoreRig) -> None:
        ann = Operations(outbox, rig.engine, operator="ann", host="rig", channel=None)
        assert await ann.pause(event_type="a1", reason="the consumer is being repaired")
        [row] = await rig.sql("SELECT * FROM suite_outbox_pauses")
        assert (row.event_type, row.aggregate_type, row.aggregate_id) == ("a1", "", "")
        assert (row.operator, row.host) == ("ann", "rig")
        assert row.reason == "the consumer is being repaired"
        assert row.paused_at is not None

    async def test_a_second_pause_of_the_same_changes_nothing(self, rig: StoreRig) -> None:
        assert await rig.operations.pause(reason="first")
        assert not await rig.operations.pause(reason="second")
        [row] = await rig.sql("SELECT reason FROM suite_outbox_pauses")
        assert row.reason == "first"
        assert len(await entries(rig)) == 1

    async def test_to_resume_ends_the_pause_of_just_that(self, rig: StoreRig) -> None:
        await rig.operations.pause()
        await rig.operations.pause(event_type="a1")
        await rig.operations.pause(key=Key("suite", "a"))
        assert await rig.operations.resume(event_type="a1")
        assert not await rig.operations.resume(event_type="a1")
        assert await rig.operations.resume()
        [row] = await rig.sql("SELECT aggregate_type, aggregate_id FROM suite_outbox_pauses")
        assert (row.aggregate_type, row.aggregate_id) == ("suite", "a")

    async def test_a_type_and_a_key_are_paused_each_by_itself(self, rig: StoreRig) -> None:
        with pytest.raises(ValueError, match="event_type or key"):
            await rig.operations.pause(event_type="a1", key=Key("suite", "a"))
