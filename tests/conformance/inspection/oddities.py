"""Rows that somebody edited by hand, to rubbish: every question is answered all the same."""

from collections.abc import Awaitable, Callable
from typing import Any

from postroom.inspection import PENDING, Inspector, RecordFilter, RecordState, as_json
from tests.conformance.inspection.window import Window
from tests.conformance.store.rubbish import ANYWHERE, ON_POSTGRES, ON_SQLITE

FAILED = "status = 'failed', ready = false, error_message = 'no'"


class Oddities:
    """No row keeps an operator from looking."""

    async def test_no_rubbish_in_a_row_keeps_a_question_from_its_answer(
        self, window: Window
    ) -> None:
        own = ON_SQLITE if window.engine.dialect.name == "sqlite" else ON_POSTGRES
        unanswered = []
        for name, rubbish in (ANYWHERE | own).items():
            await window.clear()
            await window.put("a1", "b1", "c1")
            position = await window.position("a1")
            await window.sql(f"UPDATE suite_outbox SET {rubbish} WHERE position = {position}")
            for state in ("", FAILED):
                if state:
                    await window.sql(f"UPDATE suite_outbox SET {state} WHERE position = {position}")
                for question in questions(window.inspector, position):
                    try:
                        as_json(await question())
                    except Exception as error:
                        unanswered.append(f"{name}: {error!r}"[:200])
        assert not unanswered, "\n".join(unanswered)


def questions(inspector: Inspector, position: int) -> list[Callable[[], Awaitable[Any]]]:
    failed = frozenset({RecordState.FAILED})
    return [
        inspector.overview,
        inspector.latency,
        inspector.records,
        lambda: inspector.records(RecordFilter(states=PENDING, event_type="*", error="no")),
        lambda: inspector.records(RecordFilter(states=failed)),
        lambda: inspector.record(str(position)),
        lambda: inspector.key("suite/a"),
        inspector.failures,
        inspector.blocked_keys,
        inspector.event_types,
    ]
