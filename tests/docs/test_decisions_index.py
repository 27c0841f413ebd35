"""The index of decisions lists every page, and each page has the same parts."""

import re

from tests.docs.pages import ROOT

FOLDER = ROOT / "docs" / "decisions"
PAGES = sorted(FOLDER.glob("0*.md"))
PARTS = ["Context", "Choice", "Consequences"]


def test_the_index_lists_every_decision_in_order() -> None:
    index = (FOLDER / "README.md").read_text()
    assert re.findall(r"\]\((0\S+\.md)\)", index) == [page.name for page in PAGES]


def test_a_decision_has_a_context_a_choice_and_consequences() -> None:
    for page in PAGES:
        headings = re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE)
        assert [each for each in headings if each in PARTS] == PARTS, page.name
