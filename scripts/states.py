"""Draws the states of a record for docs/reference/states.md: docs/images/states-*.svg.

`make docs-reference` draws it; `make lint` fails if the pictures are out of date.
"""

from scripts.drawing import Colours, Point, arrow, box, picture, text_at, zone

SIZE = (900, 350)
LABEL = (
    "A record is pending (ready, waiting, parked or paused), published or failed; the tables below"
    " describe each change"
)
BOX = (130, 56)


def draw(colours: Colours) -> str:
    """Return the picture as SVG."""
    parts = [
        zone(colours, (110, 36), (540, 300), "status: pending"),
        box(colours, (315, 60), BOX, "ready", "may be claimed"),
        box(colours, (130, 250), BOX, "parked", "behind its key"),
        box(colours, (315, 250), BOX, "waiting", "for its time"),
        box(colours, (500, 250), BOX, "paused", "by an operator"),
        box(colours, (740, 60), BOX, "published", "delivered"),
        box(colours, (740, 250), BOX, "failed", "blocks its key"),
        box(colours, (755, 163), (100, 40), "deleted"),
        arrow(colours, (20, 88), (315, 88)),
        _label(colours, (60, 78), "middle", "commit"),
        arrow(colours, (335, 116), (185, 250)),
        arrow(colours, (205, 250), (355, 116)),
        _label(colours, (235, 166), "end", "key blocked ↙", "key released ↗"),
        arrow(colours, (373, 116), (373, 250)),
        arrow(colours, (389, 250), (389, 116)),
        _label(colours, (365, 200), "end", "refused or", "postponed"),
        _label(colours, (397, 180), "start", "its time", "comes"),
        arrow(colours, (407, 116), (555, 250)),
        arrow(colours, (575, 250), (427, 116)),
        _label(colours, (530, 166), "start", "↘ pause", "↖ resume"),
        arrow(colours, (650, 78), (740, 78)),
        arrow(colours, (740, 98), (650, 98)),
        _label(colours, (695, 70), "middle", "delivered"),
        _label(colours, (695, 116), "middle", "replay"),
        arrow(colours, (650, 268), (740, 268)),
        arrow(colours, (740, 288), (650, 288)),
        _label(colours, (695, 260), "middle", "last refusal"),
        _label(colours, (695, 306), "middle", "retry"),
        arrow(colours, (805, 116), (805, 163)),
        arrow(colours, (805, 250), (805, 203)),
        arrow(colours, (650, 183), (755, 183)),
        _label(colours, (813, 138), "start", "retention,", "purge"),
        _label(colours, (813, 232), "start", "discard"),
        _label(colours, (702, 177), "middle", "discard"),
    ]
    return picture(SIZE, LABEL, parts)


def _label(colours: Colours, place: Point, anchor: str, *lines: str) -> str:
    x, y = place
    return "".join(
        text_at((x, y + 17 * row), line, colours.text, 13, anchor) for row, line in enumerate(lines)
    )
