"""The page of log events has every line that the code logs, with its logger and its level."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest

from postroom import ClaimedRecord
from postroom.cli.logs import STANDARD
from postroom.relay.loop import DRAINED, UNDRAINED
from postroom.relay.refusal_log import FULL_LINES, LEVELS, MOST_LINES, SUMMARIES, RefusalLog
from postroom.store.base import Attempt, HeldRecord, Verdict
from tests.docs.log_calls import PLACEHOLDER, LogCall, log_calls
from tests.docs.markdown import code, table_under
from tests.docs.pages import ROOT

PAGE = ROOT / "docs/reference/log-events.md"
LOGGERS = ("postroom.relay", "postroom.publishers", "postroom.store", "postroom.worker")
COMPUTED: dict[tuple[str, str, str], tuple[str, ...]] = {
    ("postroom.relay", "log", ""): tuple(PLACEHOLDER.sub("…", each) for each in SUMMARIES.values()),
    ("postroom.relay", "warning", "postroom: …"): (
        f"postroom: {DRAINED}",
        f"postroom: {UNDRAINED}",
    ),
    ("postroom.worker", "info", "postroom: …"): (
        "postroom: delivers …",
        "postroom: … delivered, … refused, … postponed, … failed",
    ),
    ("postroom.console", "error", "postroom: …"): ("postroom: … stopped after … of …: …",),
    ("postroom.console", "warning", "postroom: …"): ("postroom: … stopped after … of …: …",),
}
"""Lines whose text, or most of it, is computed: what the page says of them."""


def documented() -> list[tuple[str, str, str]]:
    """Return logger, levels and text of each line on the page."""
    rows = [(f"`{logger}`", *row) for logger in LOGGERS for row in table_under(PAGE, logger).rows]
    rows += table_under(PAGE, "Others").rows
    return [(logger.strip("`"), levels, code(line)[0]) for logger, levels, line, _ in rows]


def texts_of(call: LogCall) -> tuple[str, ...]:
    return COMPUTED.get(call[:3], (call.text,))


def test_every_line_of_the_page_is_one_of_the_code_and_the_other_way_round() -> None:
    logged = {(call.logger, text) for call in log_calls() for text in texts_of(call)}
    assert {(logger, text) for logger, _, text in documented()} == logged


def test_every_line_begins_with_the_name_of_the_library() -> None:
    others = [text for _, _, text in documented() if not text.startswith("postroom: ")]
    assert others == []


@pytest.mark.parametrize("call", log_calls(), ids=lambda call: str(call.place))
def test_a_line_has_the_level_that_the_page_says(call: LogCall) -> None:
    level = {"exception": "ERROR"}.get(call.level, call.level.upper())
    levels = {
        each
        for logger, shown, text in documented()
        if logger == call.logger and text in texts_of(call)
        for each in shown.split(", ")
    }
    assert level in levels or (level == "LOG" and len(levels) > 1)


def test_no_line_is_listed_twice() -> None:
    assert len(documented()) == len(set(documented()))


def test_the_limits_are_those_of_the_code() -> None:
    text = PAGE.read_text()
    full = f"{FULL_LINES[Verdict.RETRY]} that are tried again and {FULL_LINES[Verdict.FAILED]} that"
    assert full in text
    assert f"{MOST_LINES} in all" in text
    assert len(LEVELS) == 2


def test_the_fields_of_a_line_about_a_record_are_listed(caplog: pytest.LogCaptureFixture) -> None:
    now = datetime.now(UTC)
    claimed = ClaimedRecord(1, 0, uuid4(), "order.paid", 1, None, None, "{}", 0, 10, now, now, {})
    refused = Attempt(
        record=HeldRecord(claimed, token=1), verdict=Verdict.RETRY, reason="no", retry_count=1
    )
    RefusalLog().add(refused, now=0.0)
    [line] = caplog.records
    fields = {name for row in table_under(PAGE, "Fields").rows for name in code(row[0])}
    assert vars(line).keys() - STANDARD <= fields
    assert fields - vars(line).keys() <= {"worker", "route", "records"}
