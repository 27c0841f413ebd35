"""The pictures of the docs are what their scripts draw."""

from collections.abc import Callable

import pytest

from scripts import journey, states
from scripts.drawing import FOLDER, THEMES, Colours

PICTURES = {"journey": journey.draw, "states": states.draw}


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(("name", "draw"), PICTURES.items(), ids=PICTURES)
def test_a_picture_is_up_to_date(name: str, draw: Callable[[Colours], str], theme: str) -> None:
    drawn = draw(THEMES[theme])
    assert (FOLDER / f"{name}-{theme}.svg").read_text() == drawn, f"run python -m scripts.{name}"
