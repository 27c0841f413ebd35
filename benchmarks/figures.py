"""The figures of a run: medians and quartiles beside their bounds, as a table and as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured figure of a contender, with a value for every turn.

    The median has to be `at_least` or `at_most` so much; without either it is for comparison.
    """

    row: str
    contender: str
    what: str
    values: Sequence[float]
    unit: str = "×"
    at_least: float | None = None
    at_most: float | None = None

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def quartiles(self) -> tuple[float, float]:
        if len(self.values) == 1:
            return self.values[0], self.values[0]
        low, _, high = quantiles(self.values, n=4, method="inclusive")
        return low, high

    @property
    def ok(self) -> bool | None:
        """Whether the median is at its bound; None without a bound."""
        if self.at_least is not None:
            return self.median >= self.at_least
        return None if self.at_most is None else self.median <= self.at_most

    @property
    def bound(self) -> str:
        if self.at_least is not None:
            return f"≥ {self.at_least:g}"
        return "" if self.at_most is None else f"≤ {self.at_most:g}"

    def as_json(self) -> dict[str, Any]:
        low, high = self.quartiles
        return {
            "row": self.row,
            "contender": self.contender,
            "what": self.what,
            "unit": self.unit,
            "median": rounded(self.median),
            "quartiles": [rounded(low), rounded(high)],
            "values": [rounded(each) for each in self.values],
            "bound": self.bound or None,
            "ok": self.ok,
        }


def table(figures: Sequence[Figure]) -> str:
    """Write figures as lines of columns: row, contender, figure, median and quartiles, bound."""
    lines = [("row", "contender", "figure", "median (quartiles)", "bound", "")]
    lines += [_line(figure) for figure in figures]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = (zip(line, widths, strict=True) for line in lines)
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in line).rstrip() for line in padded
    )


def _line(figure: Figure) -> tuple[str, str, str, str, str, str]:
    low, high = (written(each) for each in figure.quartiles)
    measured = f"{written(figure.median)} {figure.unit} ({low}–{high})"
    verdict = {True: "ok", False: "NOT OK", None: ""}[figure.ok]
    return figure.row, figure.contender, figure.what, measured, figure.bound, verdict


def written(value: float) -> str:
    """Write a number with three digits that count, and no exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def rounded(value: float) -> float:
    return float(f"{value:.4g}")
