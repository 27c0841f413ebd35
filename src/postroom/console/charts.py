"""Line charts as SVG. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from postroom.console.samples import Point
from postroom.inspection import duration

WIDTH: Final = 300
HEIGHT: Final = 60
SPAN: Final = 600.0
"""Seconds that a chart covers."""

Read = Callable[[Point], float | None]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart: its name, its latest value, and its parts as `x,y x,y`."""

    name: str
    latest: str
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of one or two lines."""

    title: str
    top: str
    """The value of the upper edge."""
    lines: tuple[Line, ...]

    @property
    def summary(self) -> str:
        """The latest values, for those who do not see the lines."""
        values = ", ".join(f"{each.name} {each.latest}".strip() for each in self.lines)
        return f"{self.title}: {values}"


def charts(points: Sequence[Point]) -> tuple[Chart, ...]:
    """Return the charts of the overview."""
    return (
        _chart(
            "Per minute",
            points,
            _number,
            {"in": lambda it: it.in_per_minute, "out": lambda it: it.out_per_minute},
        ),
        _chart("Pending", points, _number, {"": lambda it: it.pending}),
        _chart("Oldest", points, seconds_text, {"": lambda it: it.oldest}),
        _chart(
            "Latency", points, seconds_text, {"p50": lambda it: it.p50, "p99": lambda it: it.p99}
        ),
    )


def _chart(
    title: str, points: Sequence[Point], write: Callable[[float], str], lines: dict[str, Read]
) -> Chart:
    now = points[-1].at if points else None
    shown = [each for each in points if now and (now - each.at).total_seconds() <= SPAN]
    values = [value for read in lines.values() for each in shown if (value := read(each))]
    top = max(values, default=1.0)
    return Chart(
        title,
        write(top) if values else "",
        tuple(_line(name, shown, read, top, write) for name, read in lines.items()),
    )


def _line(
    name: str, points: Sequence[Point], read: Read, top: float, write: Callable[[float], str]
) -> Line:
    latest = read(points[-1]) if points else None
    parts = tuple(_parts(points, read, top))
    return Line(name, "-" if latest is None else write(latest), parts)


def _parts(points: Sequence[Point], read: Read, top: float) -> Iterator[str]:
    """Yield the coordinates of a line; where a value is missing, it is interrupted."""
    part: list[str] = []
    for point in points:
        value = read(point)
        if value is None:
            yield from [" ".join(part)] if part else []
            part = []
        else:
            part.append(f"{_x(point.at, points[-1].at):.1f},{HEIGHT * (1 - value / top):.1f}")
    if len(part) == 1:  # a line needs two points to be seen
        part.append(f"{WIDTH},{part[0].partition(',')[2]}")
    yield from [" ".join(part)] if part else []


def _x(at: datetime, now: datetime) -> float:
    return WIDTH * (1 - (now - at).total_seconds() / SPAN)


def bars(values: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return the bars of a trend as x, y and height, in a box of 24 by 12."""
    top = max(values, default=0) or 1
    heights = [0 if not value else max(1, round(12 * value / top)) for value in values]
    return [(x, 12 - height, height) for x, height in enumerate(heights) if height]


def _number(value: float) -> str:
    return f"{value:,.0f}"


def seconds_text(value: float) -> str:
    """Write seconds; less than one as milliseconds."""
    return f"{value * 1000:.0f} ms" if value < 1 else duration(timedelta(seconds=value))
