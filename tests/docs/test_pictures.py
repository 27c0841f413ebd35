"""The pictures of the docs are what their scripts draw."""

import pytest

from scripts.journey import FOLDER, THEMES, draw


@pytest.mark.parametrize("theme", THEMES)
def test_the_picture_of_the_journey_is_up_to_date(theme: str) -> None:
    drawn = draw(THEMES[theme])
    assert (FOLDER / f"journey-{theme}.svg").read_text() == drawn, "run python -m scripts.journey"
