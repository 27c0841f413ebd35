"""Shapes of the pictures that the docs have, in light and dark colours."""

from dataclasses import dataclass
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "images"
FONT = "system-ui, -apple-system, Segoe UI, Roboto, sans-serif"
Point = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Colours:
    """The colours of one picture."""

    text: str
    faint: str
    line: str
    accent: str
    box: str
    zone: str


THEMES = {
    "light": Colours("#1f2933", "#52606d", "#7b8794", "#0b6e6e", "#ffffff", "#e3f2f0"),
    "dark": Colours("#e4e7eb", "#b0bac5", "#7b8794", "#4fd1c5", "#1f2933", "#14302e"),
}


def picture(size: Point, label: str, parts: list[str]) -> str:
    """Return a picture as SVG."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" role="img" '
        f'aria-label="{label}" font-family="{FONT}">'
    )
    return "\n".join([head, *parts, "</svg>\n"])


def zone(colours: Colours, corner: Point, size: Point, title: str) -> str:
    """Draw a dashed box with a title above it."""
    shape = rectangle(corner, size, colours.zone, colours.accent, 'stroke-dasharray="5 4"')
    x, y = corner[0] + size[0] // 2, corner[1] - 10
    return shape + text_at((x, y), title, colours.accent, 13, "middle")


def box(colours: Colours, corner: Point, size: Point, title: str, *lines: str) -> str:
    """Draw a box with a title and lines below it."""
    x = corner[0] + size[0] // 2
    y = corner[1] + (size[1] - 18 * len(lines)) // 2 + 5
    shape = rectangle(corner, size, colours.box, colours.line)
    texts = [text_at((x, y), title, colours.text, 15, "middle", weight=600)]
    texts += [
        text_at((x, y + 18 * number), line, colours.faint, 13, "middle")
        for number, line in enumerate(lines, start=1)
    ]
    return shape + "".join(texts)


def arrow(colours: Colours, start: Point, end: Point) -> str:
    """Draw a line with a point at its end."""
    (x1, y1), (x2, y2) = start, end
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    back = x2 - 9 * dx, y2 - 9 * dy
    corners = [(x2, y2), (back[0] - 4 * dy, back[1] + 4 * dx), (back[0] + 4 * dy, back[1] - 4 * dx)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    line = f'<path d="M{x1} {y1}L{back[0]:.1f} {back[1]:.1f}" stroke="{colours.accent}" '
    return f'{line}stroke-width="2"/><polygon points="{points}" fill="{colours.accent}"/>'


def rectangle(corner: Point, size: Point, fill: str, stroke: str, more: str = "") -> str:
    """Draw a rectangle with round corners."""
    place = f'x="{corner[0]}" y="{corner[1]}" width="{size[0]}" height="{size[1]}"'
    return f'<rect {place} rx="8" fill="{fill}" stroke="{stroke}" stroke-width="1.5" {more}/>'


def text_at(
    place: Point, text: str, colour: str, size: int, anchor: str, *, weight: int = 400
) -> str:
    """Draw a line of text."""
    where = f'x="{place[0]}" y="{place[1]}" text-anchor="{anchor}"'
    how = f'font-size="{size}" font-weight="{weight}" fill="{colour}"'
    return f"<text {where} {how}>{escape(text)}</text>"
