"""The chart of a run as SVG: rates beside raw frames, and latencies."""

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from benchmarks.contender import POSTROOM
from benchmarks.figures import Figure, written

WIDTH, LABELS, VALUES = 720, 170, 70
BAR, GAP, TITLE, MARGIN = 18, 6, 34, 16
OURS, OTHERS, PALE_OURS, PALE_OTHERS = "#1f6feb", "#8b949e", "#a5c8ff", "#d0d7de"
STYLE = "text { font: 13px sans-serif; fill: #1f2328 } .title { font-weight: bold }"


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One bar of a panel."""

    label: str
    value: float
    unit: str
    colour: str


FLOOR = Bar(label="raw frames", value=1, unit="×", colour=PALE_OTHERS)


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Bars of one unit under a title."""

    title: str
    bars: Sequence[Bar]

    @property
    def height(self) -> int:
        return TITLE + len(self.bars) * (BAR + GAP) + MARGIN


def chart(figures: Sequence[Figure]) -> str:
    """Draw the panels that a run has figures for, one below the other."""
    drawn = [panel for panel in _panels(figures) if panel.bars]
    height = MARGIN + sum(panel.height for panel in drawn)
    parts, top = [], MARGIN
    for panel in drawn:
        parts.append(_draw(panel, top))
        top += panel.height
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
        f' width="{WIDTH}" height="{height}" role="img">\n<style>{STYLE}</style>\n'
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _panels(figures: Sequence[Figure]) -> list[Panel]:
    ratios = [figure for figure in figures if figure.what == "rate, ratio to raw"]
    rows = dict.fromkeys(each.row for each in ratios if each.row.startswith(("burst", "drain")))
    panels = [
        Panel(
            title=f"{row}: rate, ratio to raw frames (more is better)",
            bars=[FLOOR, *(_bar(figure) for figure in ratios if figure.row == row)],
        )
        for row in rows
    ]
    latencies = [figure for figure in figures if figure.what in ("p50", "p99")]
    names = dict.fromkeys(figure.contender for figure in latencies)
    bars = [_bar(each, each.what) for name in names for each in latencies if each.contender == name]
    title = "from commit to consumer at 50 events/s: p50 and p99 (less is better)"
    return [*panels, Panel(title=title, bars=bars)]


def _bar(figure: Figure, what: str = "") -> Bar:
    ours, pale = figure.contender.startswith(POSTROOM.name), what == "p99"
    return Bar(
        label=f"{figure.contender} {what}".strip(),
        value=figure.median,
        unit=figure.unit,
        colour=(PALE_OURS if pale else OURS) if ours else (PALE_OTHERS if pale else OTHERS),
    )


def _draw(panel: Panel, top: int) -> str:
    longest = max(bar.value for bar in panel.bars)
    lines = [f'<text class="title" x="{MARGIN}" y="{top + 14}">{escape(panel.title)}</text>']
    for number, bar in enumerate(panel.bars):
        y = top + TITLE - GAP + number * (BAR + GAP)
        length = (WIDTH - LABELS - VALUES - MARGIN) * bar.value / longest
        value = f"{written(bar.value)} {bar.unit}"
        lines += (
            f'<text x="{LABELS - 8}" y="{y + 14}" text-anchor="end">{escape(bar.label)}</text>',
            f'<rect x="{LABELS}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{bar.colour}"/>',
            f'<text x="{LABELS + length + 6:.1f}" y="{y + 14}">{value}</text>',
        )
    return "\n".join(lines)
