"""Charts: the coordinates of lines and bars."""

from datetime import UTC, datetime, timedelta

import pytest

from postroom.console.charts import HEIGHT, SPAN, WIDTH, bars, charts
from postroom.console.samples import Point

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def point(seconds_ago: float, **values: float | None) -> Point:
    given: dict[str, float | None] = {
        "in_per_minute": 0.0,
        "out_per_minute": 0.0,
        "pending": 0.0,
        "oldest": 0.0,
        "p50": None,
        "p99": None,
    }
    return Point(at=NOW - timedelta(seconds=seconds_ago), **(given | values))  # type: ignore[arg-type]


def coordinates(part: str) -> list[tuple[float, float]]:
    pairs = (each.split(",") for each in part.split())
    return [(float(x), float(y)) for x, y in pairs]


def test_charts_without_points_are_empty() -> None:
    made = charts([])
    assert [each.title for each in made] == ["Per minute", "Pending", "Oldest", "Latency"]
    for chart in made:
        assert chart.top == ""
        assert all(line.parts == () and line.latest == "-" for line in chart.lines)
    assert made[0].summary == "Per minute: in -, out -"


def test_a_line_goes_from_its_first_point_to_the_right_edge() -> None:
    points = [point(SPAN, pending=10), point(SPAN / 2, pending=20), point(0, pending=0)]
    pending = charts(points)[1]
    [part] = pending.lines[0].parts
    assert coordinates(part) == [(0, HEIGHT / 2), (WIDTH / 2, 0), (WIDTH, HEIGHT)]
    assert (pending.top, pending.summary) == ("20", "Pending: 0")
    [single] = charts([point(0, pending=7)])[1].lines[0].parts
    assert coordinates(single) == [(WIDTH, 0), (WIDTH, 0)]
    [zeros] = charts([point(10), point(0)])[1].lines[0].parts
    assert {y for _, y in coordinates(zeros)} == {HEIGHT}


def test_points_that_are_too_old_are_left_out() -> None:
    points = [point(SPAN + 1, pending=1000), point(1, pending=1), point(0, pending=2)]
    pending = charts(points)[1]
    assert pending.top == "2"
    assert len(coordinates(pending.lines[0].parts[0])) == 2


def test_a_line_is_interrupted_where_a_value_is_missing() -> None:
    points = [point(40, p50=1), point(30, p50=2), point(20), point(10, p50=4), point(0)]
    p50, p99 = charts(points)[3].lines
    assert [len(coordinates(each)) for each in p50.parts] == [2, 1]
    assert (p50.latest, p99.latest, p99.parts) == ("-", "-", ())


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0042, "4 ms"), (0.9, "900 ms"), (5, "5.0 s"), (600, "10 min")]
)
def test_times_are_in_their_unit(seconds: float, text: str) -> None:
    assert charts([point(0, p99=seconds)])[3].lines[1].latest == text


def test_bars_are_relative_to_the_highest() -> None:
    assert bars([0, 1, 50, 100]) == [(1, 11, 1), (2, 6, 6), (3, 0, 12)]
    assert bars([0, 0]) == []
    assert bars([]) == []
