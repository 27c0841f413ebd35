"""Draws the journey of an event for README.md and the site: docs/images/journey-*.svg.

`make docs-reference` draws it; `make lint` fails if the pictures are out of date.
"""

from scripts.drawing import Colours, arrow, box, picture, text_at, zone

SIZE = (880, 300)
LABEL = "An application commits data and events together; a worker delivers the events"


def draw(colours: Colours) -> str:
    """Return the picture as SVG."""
    parts = [
        zone(colours, (220, 36), (220, 202), "your database"),
        box(colours, (20, 92), (150, 90), "your application", "saves an order", "and its event"),
        box(colours, (240, 62), (180, 66), "orders", "your tables"),
        box(colours, (240, 154), (180, 66), "outbox", "events that wait"),
        box(colours, (490, 154), (150, 66), "worker", "one, or many"),
        box(colours, (710, 62), (150, 66), "RabbitMQ", "or your publisher"),
        box(colours, (710, 154), (150, 66), "handlers", "in your process"),
        arrow(colours, (170, 122), (240, 95)),
        arrow(colours, (170, 152), (240, 187)),
        arrow(colours, (420, 178), (490, 178)),
        arrow(colours, (490, 198), (420, 198)),
        arrow(colours, (640, 178), (710, 95)),
        arrow(colours, (640, 190), (710, 190)),
        _step(colours, 20, "1", "commit: both rows,", "or none"),
        _step(colours, 240, "2", "claim: in order", "for each key"),
        _step(colours, 470, "3", "deliver: at least once,", "confirmed"),
        _step(colours, 700, "4", "settle: delivered, or", "kept for a retry"),
    ]
    return picture(SIZE, LABEL, parts)


def _step(colours: Colours, x: int, number: str, *lines: str) -> str:
    circle = f'<circle cx="{x + 12}" cy="266" r="12" fill="{colours.accent}"/>'
    digit = text_at((x + 12, 271), number, colours.box, 14, "middle", weight=600)
    texts = [
        text_at((x + 32, 262 + 17 * row), line, colours.text, 13, "start")
        for row, line in enumerate(lines)
    ]
    return circle + digit + "".join(texts)
