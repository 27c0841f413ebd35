"""Errors of one kind: what differs from record to record is replaced."""

import pytest

from postroom.inspection.failures import group_id, normalised


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("card 17 expired.", "card <number> expired."),
        ("order 01a1e40f-0000-7000-8000-000000000001.", "order <id>."),
        ("01A1E40F000070008000000000000001", "<id>"),
        ("HTTP404 from mq1:5672 after 30s", "HTTP404 from mq1:<number> after <number>s"),
        ("at 2024-05-01T12:30:00Z", "at <time>"),
        ("at 2024-05-01 12:30:00.5", "at <time> <time>"),
        (
            "can't and don't take 'a b' or \"c\" or `d`",
            "can't and don't take <text> or <text> or <text>",
        ),
        ("0xDEADBEEF and a1b2c3d4e5 and 12345678", "<hex> and <hex> and <number>"),
        ("  first line 1\nsecond line 2", "first line <number>"),
        ("", ""),
        (
            "Declined: the facade of cafe babe is closed",
            "Declined: the facade of cafe babe is closed",
        ),
    ],
)
def test_values_are_replaced(error: str, expected: str) -> None:
    assert normalised(error) == expected


def test_a_long_text_without_an_end_of_quote_takes_no_time() -> None:
    assert normalised("'" * 2001 + "a" * 20_000)


def test_a_group_has_one_id_for_ever() -> None:
    assert group_id("paid", "no card <number>") == "333302c36616"
    assert group_id("paid", "no card") != group_id("paidno", " card")
