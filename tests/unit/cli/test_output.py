"""What a command prints, in a pipe and as JSON."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from uuid import UUID

import pytest

from postroom.cli import output
from postroom.cli.output import Cell


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Fact:
    name: str
    since: timedelta


def test_a_table_in_a_pipe_is_aligned_and_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300
    output.print_table(["key", "records"], [["order/7", 42], [long, None], [Cell("a", "bad"), 1]])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["key", "records"]
    assert lines[1] == f"order/7{' ' * 295}42"
    assert lines[2] == f"{long}  -"
    assert lines[3].split() == ["a", "1"]
    assert "\x1b" not in "".join(lines)
    output.print_table(["key", "records"], [])
    assert capsys.readouterr().out == "key  records\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("a\nb\tc", "a b c"),
        ("a\rb\x00", r"a\rb\x00"),
        ("\u202eabc", r"\u202eabc"),
        ("Grüße 世界", "Grüße 世界"),
    ],
)
def test_a_text_cannot_move_the_cursor_or_change_colours(text: str, shown: str) -> None:
    assert output.plain(text) == shown
    assert output.plain(Cell(text, "bad")) == shown


def test_json_has_times_in_utc_and_durations_in_seconds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    east = timezone(timedelta(hours=2))
    output.print_json(
        {
            "fact": Fact("slow", timedelta(minutes=1.5)),
            "at": datetime(2026, 1, 31, 14, tzinfo=east),
            "id": UUID(int=7),
            "colour": Colour.RED,
            "list": (1, 2.5, None, True),
        }
    )
    assert json.loads(capsys.readouterr().out) == {
        "fact": {"name": "slow", "since": 90.0},
        "at": "2026-01-31T14:00:00+02:00",
        "id": "00000000-0000-0000-0000-000000000007",
        "colour": "red",
        "list": [1, 2.5, None, True],
    }


def test_an_age_is_written_with_one_unit_and_a_moment_in_utc() -> None:
    assert output.age(datetime.now(UTC) - timedelta(minutes=4)) == "4 min"
    assert output.age(None) == "-"
    assert output.at(datetime(2026, 1, 31, 12, 0, 1, 5, tzinfo=UTC)) == "2026-01-31 12:00:01Z"
    assert output.at(None) == "-"
