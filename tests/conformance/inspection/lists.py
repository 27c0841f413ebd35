"""Lists of records, failures and blocked keys."""

from datetime import timedelta

import pytest
import pytest_asyncio

from postroom.inspection import PENDING, RecordFilter, RecordState
from postroom.record import Key
from tests.conformance.inspection.window import Window
from tests.conformance.store.rig import MINUTE, numbered


class Lists:
    """Filters and pages."""

    @pytest_asyncio.fixture(loop_scope="module")
    async def mixed(self, window: Window) -> Window:
        """One record in each state."""
        await window.put("a1", "a2", "b1", "c1", "d1")
        await window.fail("a1")
        await window.refuse("b1", reason="Timeout: 30 s")
        await window.deliver("c1")
        await window.claim()
        await window.put("e1")
        await window.pause(event_type="e1")
        return window

    @pytest.mark.parametrize(
        ("state", "expected"),
        [
            (RecordState.FAILED, "a1"),
            (RecordState.PARKED, "a2"),
            (RecordState.WAITING, "b1"),
            (RecordState.PUBLISHED, "c1"),
            (RecordState.READY, "d1"),
            (RecordState.PAUSED, "e1"),
        ],
    )
    async def test_by_state(self, mixed: Window, state: RecordState, expected: str) -> None:
        assert await mixed.names(state) == [expected]
        page = await mixed.inspector.records(RecordFilter(states=frozenset((state,))))
        assert [each.state for each in page.records] == [state]

    async def test_by_several_states(self, mixed: Window) -> None:
        assert await mixed.names(*PENDING) == ["a2", "b1", "d1", "e1"]
        assert await mixed.names(RecordState.FAILED, RecordState.PAUSED) == ["a1", "e1"]
        assert await mixed.names() == ["a1", "a2", "b1", "c1", "d1", "e1"]

    async def test_by_event_type_with_a_star(self, window: Window) -> None:
        for event_type in ("order.paid", "order_paid", "Order.sent", "order%", "[order]?"):
            await window.put(".1", event_type=event_type)
        assert await window.names(event_type="order.*") == ["order.paid"]
        assert await window.names(event_type="*paid") == ["order.paid", "order_paid"]
        assert await window.names(event_type="order%") == ["order%"]
        assert await window.names(event_type="[order]?") == ["[order]?"]
        assert await window.names(event_type="order_pai?") == []

    @pytest.mark.parametrize("states", [frozenset[RecordState](), PENDING])
    async def test_by_key(self, window: Window, states: frozenset[RecordState]) -> None:
        await window.put("a1", "b1", "a2", "a3")
        await window.put("a4", aggregate_type="other")
        await window.refuse("a1")
        await window.claim()
        await window.put("a5")
        for newest_first in (True, False):
            where = RecordFilter(states=states, key=Key("suite", "a"))
            page = await window.inspector.records(where, newest_first=newest_first)
            found = [each.event_type for each in page.records]
            assert found == ["a1", "a2", "a3", "a5"][:: -1 if newest_first else 1]

    async def test_by_error_text_upper_or_lower_case(self, mixed: Window) -> None:
        assert await mixed.names(error="timeout: 30") == ["b1"]
        assert await mixed.names(*PENDING, error="TIMEOUT") == ["b1"]
        assert await mixed.names(error="%") == []

    async def test_by_age_and_time(self, window: Window) -> None:
        await window.put("a1", "a2", "a3")
        await window.edit("a1", created_at=window.now() - 10 * MINUTE)
        await window.edit("a2", created_at=window.now() - 5 * MINUTE)
        assert await window.names(older_than=7 * MINUTE) == ["a1"]
        assert await window.names(younger_than=7 * MINUTE) == ["a2", "a3"]
        assert await window.names(younger_than=7 * MINUTE, older_than=MINUTE) == ["a2"]
        assert await window.names(since=window.now() - 7 * MINUTE) == ["a2", "a3"]
        assert await window.names(until=window.now() - 7 * MINUTE) == ["a1"]

    @pytest.mark.parametrize("newest_first", [True, False])
    @pytest.mark.parametrize("states", [frozenset[RecordState](), PENDING])
    async def test_pages_follow_each_other_without_a_gap(
        self, window: Window, states: frozenset[RecordState], newest_first: bool
    ) -> None:
        await window.put(*numbered("a", 1, 5), *numbered("b", 1, 4))
        await window.refuse("a1")
        await window.claim()
        where, cursor, found = RecordFilter(states=states), None, list[int]()
        while True:
            page = await window.inspector.records(
                where, cursor=cursor, limit=4, newest_first=newest_first
            )
            found += [each.position for each in page.records]
            cursor = page.cursor
            if cursor is None:
                break
        assert len(found) == 9
        assert found == sorted(found, reverse=newest_first)

    async def test_a_page_that_searched_enough_says_how_far_it_came(self, window: Window) -> None:
        await window.put(*numbered("a", 1, 9))
        await window.put("b1")
        inspector = window.another_inspector(search_limit=5)
        where, found = RecordFilter(event_type="b1"), list[str]()
        page = await inspector.records(where, newest_first=False)
        assert page.records == ()
        assert page.cursor == page.searched_to == await window.position("a5")
        page = await inspector.records(where, newest_first=False, cursor=page.cursor)
        found += [each.event_type for each in page.records]
        assert found == ["b1"]

    async def test_a_page_passes_over_a_gap_of_deleted_records(self, window: Window) -> None:
        await window.put(*numbered("a", 1, 9))
        gap = [await window.position(name) for name in ("a2", "a8")]
        await window.sql(f"DELETE FROM suite_outbox WHERE position BETWEEN {gap[0]} AND {gap[1]}")
        inspector = window.another_inspector(search_limit=5)
        page = await inspector.records(newest_first=False, cursor=await window.position("a1"))
        assert [each.event_type for each in page.records] == ["a9"]
        assert page.cursor is None

    async def test_a_large_backlog_is_searched_by_position(self, window: Window) -> None:
        await window.put(*numbered("a", 1, 9))
        inspector = window.another_inspector(search_limit=5)
        page = await inspector.records(RecordFilter(states=PENDING), newest_first=False)
        assert [each.event_type for each in page.records] == numbered("a", 1, 5)
        assert page.searched_to == await window.position("a5")


class Failing:
    """Failed records, in groups."""

    @pytest.mark.requirement("E6")
    async def test_errors_that_differ_in_values_are_one_group(self, window: Window) -> None:
        await window.put("a1", "b1", "c1", "d1", event_type="paid")
        for record, reason in zip(
            (await window.claim()).records,
            ("card 17 expired", "card 4 expired", "no 'such' card", "card 8 expired"),
            strict=True,
        ):
            await window.refuse_one(record, reason=reason)
        failures = await window.inspector.failures()
        assert [(each.number, each.count, each.error) for each in failures.groups] == [
            (1, 3, "card <number> expired"),
            (2, 1, "no <text> card"),
        ]
        assert (failures.total, failures.at_least) == (4, False)
        first = failures.groups[0]
        assert (first.event_type, first.example_error) == ("paid", "card 8 expired")
        assert first.first_failed_at is not None
        assert first.last_failed_at is not None
        assert first.first_failed_at <= first.last_failed_at

    async def test_a_group_has_the_trend_of_a_day(self, window: Window) -> None:
        await window.put("a1", "b1", "c1", "d1")
        for record in (await window.claim()).records:
            await window.refuse_one(record, reason="card expired")
        for name, age in (("a1", 30), ("b1", 30), ("c1", 90), ("d1", 60 * 24 + 30)):
            ago = window.now() - timedelta(minutes=age)
            await window.edit(name, updated_at=ago, event_type="paid")
        [group] = (await window.inspector.failures()).groups
        assert (group.count, len(group.trend)) == (4, 24)
        assert group.trend[-2:] == (1, 2)
        assert sum(group.trend) == 3

    async def test_a_group_gives_its_records_in_pages(self, window: Window) -> None:
        await window.put(*numbered("a", 1, 1), "b1", "c1", event_type="paid")
        await window.put("d1", event_type="sent")
        for record in (await window.claim()).records:
            await window.refuse_one(record, reason=f"no card {record.position}")
        group = (await window.inspector.failures()).groups[0]
        page = await window.inspector.records_of(group.id, limit=2)
        rest = await window.inspector.records_of(group.id, cursor=page.cursor)
        assert [len(page.records), len(rest.records), rest.cursor] == [2, 1, None]
        assert {each.event_type for each in (*page.records, *rest.records)} == {"paid"}

    async def test_an_unknown_group_has_no_records(self, window: Window) -> None:
        await window.put("a1")
        await window.fail("a1")
        assert (await window.inspector.records_of("nothing")).records == ()


class Blocking:
    """Blocked keys."""

    @pytest.mark.requirement("E6")
    async def test_the_key_with_the_most_waiting_records_comes_first(self, window: Window) -> None:
        await window.put("a1", "a2", "b1", "b2", "b3", "c1")
        await window.fail("a1")
        await window.refuse("b1", "c1", reason="busy")
        await window.claim()
        page = await window.inspector.blocked_keys()
        assert [(each.key.aggregate_id, each.waiting) for each in page.keys] == [
            ("b", 2),
            ("a", 1),
            ("c", 0),
        ]
        b = page.keys[0]
        assert b.blocker is not None
        assert (b.blocker.event_type, b.blocker.error) == ("b1", "busy")
        assert b.next_try == b.blocker.due_at is not None
        assert (page.total, page.cursor) == (3, None)
        assert page.keys[1].next_try is None

    async def test_a_paused_record_does_not_wait_behind_itself(self, window: Window) -> None:
        await window.put("a1", "a2", "a3")
        await window.pause(key="a")
        await window.claim()
        await window.claim()
        [key] = (await window.inspector.blocked_keys()).keys
        assert key.blocker is not None
        assert (key.blocker.event_type, key.blocker.state) == ("a1", RecordState.PAUSED)
        assert key.waiting == 2

    async def test_blocked_keys_come_in_pages(self, window: Window) -> None:
        names = [f"{key}1" for key in "abcde"]
        await window.put(*names)
        await window.refuse(*names)
        first = await window.inspector.blocked_keys(limit=3)
        rest = await window.inspector.blocked_keys(limit=3, cursor=first.cursor)
        keys = [each.key.aggregate_id for each in (*first.keys, *rest.keys)]
        assert (sorted(keys), first.total, rest.cursor) == (list("abcde"), 5, None)

    async def test_a_count_beyond_the_search_limit_says_so(self, window: Window) -> None:
        await window.put(*numbered("a", 1, 9))
        await window.refuse("a1", delay=timedelta(hours=1))
        await window.claim()
        page = await window.another_inspector(search_limit=5).blocked_keys()
        assert [(each.waiting, each.at_least) for each in page.keys] == [(5, True)]

    async def test_a_blocking_record_that_is_gone_is_none(self, window: Window) -> None:
        await window.put("a1", "a2")
        await window.fail("a1")
        await window.claim()
        await window.sql("DELETE FROM suite_outbox WHERE event_type = 'a1'")
        [key] = (await window.inspector.blocked_keys()).keys
        assert (key.blocker, key.waiting) == (None, 1)
