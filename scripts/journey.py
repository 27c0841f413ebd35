"""Draws the journey of an event for README.md and the site: docs/images/journey-*.svg.

Run as `python -m scripts.journey`; a test fails when the pictures differ from what it draws.
"""

from dataclasses import dataclass
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "images"
WIDTH, HEIGHT = 880, 300
FONT = "system-ui, -apple-system, Segoe UI, Roboto, sans-serif"
LABEL = "An application commits data and events together; a worker delivers the events"
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


def draw(colours: Colours) -> str:
    """Return the picture as SVG."""
    parts = [
        _zone(colours, (220, 36), (220, 202), "your database"),
        _box(colours, (20, 92), (150, 90), "your application", "saves an order", "and its event"),
        _box(colours, (240, 62), (180, 66), "orders", "your tables"),
        _box(colours, (240, 154), (180, 66), "outbox", "events that wait"),
        _box(colours, (490, 154), (150, 66), "worker", "one, or many"),
        _box(colours, (710, 62), (150, 66), "RabbitMQ", "or your publisher"),
        _box(colours, (710, 154), (150, 66), "handlers", "in your process"),
        _arrow(colours, (170, 122), (240, 95)),
        _arrow(colours, (170, 152), (240, 187)),
        _arrow(colours, (420, 178), (490, 178)),
        _arrow(colours, (490, 198), (420, 198)),
        _arrow(colours, (640, 178), (710, 95)),
        _arrow(colours, (640, 190), (710, 190)),
        _step(colours, 20, "1", "commit: both rows,", "or none"),
        _step(colours, 240, "2", "claim: in order", "for each key"),
        _step(colours, 470, "3", "deliver: at least once,", "confirmed"),
        _step(colours, 700, "4", "settle: delivered, or", "kept for a retry"),
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{LABEL}" font-family="{FONT}">'
    )
    return "\n".join([head, *parts, "</svg>\n"])


def _zone(colours: Colours, corner: Point, size: Point, title: str) -> str:
    shape = _rectangle(corner, size, colours.zone, colours.accent, 'stroke-dasharray="5 4"')
    x, y = corner[0] + size[0] // 2, corner[1] - 10
    return shape + _text((x, y), title, colours.accent, 13, "middle")


def _box(colours: Colours, corner: Point, size: Point, title: str, *lines: str) -> str:
    x = corner[0] + size[0] // 2
    y = corner[1] + (size[1] - 18 * len(lines)) // 2 + 5
    shape = _rectangle(corner, size, colours.box, colours.line)
    texts = [_text((x, y), title, colours.text, 15, "middle", weight=600)]
    texts += [
        _text((x, y + 18 * number), line, colours.faint, 13, "middle")
        for number, line in enumerate(lines, start=1)
    ]
    return shape + "".join(texts)


def _arrow(colours: Colours, start: Point, end: Point) -> str:
    """Draw a line with a point at its end."""
    (x1, y1), (x2, y2) = start, end
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    back = x2 - 9 * dx, y2 - 9 * dy
    corners = [(x2, y2), (back[0] - 4 * dy, back[1] + 4 * dx), (back[0] + 4 * dy, back[1] - 4 * dx)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    line = f'<path d="M{x1} {y1}L{back[0]:.1f} {back[1]:.1f}" stroke="{colours.accent}" '
    return f'{line}stroke-width="2"/><polygon points="{points}" fill="{colours.accent}"/>'


def _step(colours: Colours, x: int, number: str, *lines: str) -> str:
    circle = f'<circle cx="{x + 12}" cy="266" r="12" fill="{colours.accent}"/>'
    digit = _text((x + 12, 271), number, colours.box, 14, "middle", weight=600)
    texts = [
        _text((x + 32, 262 + 17 * row), line, colours.text, 13, "start")
        for row, line in enumerate(lines)
    ]
    return circle + digit + "".join(texts)


def _rectangle(corner: Point, size: Point, fill: str, stroke: str, more: str = "") -> str:
    place = f'x="{corner[0]}" y="{corner[1]}" width="{size[0]}" height="{size[1]}"'
    return f'<rect {place} rx="8" fill="{fill}" stroke="{stroke}" stroke-width="1.5" {more}/>'


def _text(
    place: Point, text: str, colour: str, size: int, anchor: str, *, weight: int = 400
) -> str:
    where = f'x="{place[0]}" y="{place[1]}" text-anchor="{anchor}"'
    how = f'font-size="{size}" font-weight="{weight}" fill="{colour}"'
    return f"<text {where} {how}>{escape(text)}</text>"


def main() -> None:
    for theme, colours in THEMES.items():
        (FOLDER / f"journey-{theme}.svg").write_text(draw(colours))


if __name__ == "__main__":
    main()
