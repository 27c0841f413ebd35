"""Whoever writes a handler is told what to expect."""

from pathlib import Path

import pytest

from tests.support.command import ROOT

README = Path(__file__).parents[1] / "README.md"
GUIDE = ROOT / "docs/how-to/handlers.md"
SECTION = "## What to expect when you write one"


@pytest.mark.requirement("A20")
def test_the_guide_to_handlers_tells_of_the_delay_and_of_repeats() -> None:
    _, _, rest = GUIDE.read_text().partition(SECTION)
    section = rest.partition("\n## ")[0]
    assert "runs after the commit, and some time later" in section
    assert "may run again" in section


@pytest.mark.requirement("A20")
def test_the_readme_tells_of_both_and_leads_to_the_guide() -> None:
    text = README.read_text()
    assert "some time later" in text
    assert "run again" in text
    assert "../../docs/how-to/handlers.md#what-to-expect-when-you-write-one" in text
