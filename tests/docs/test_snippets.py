"""Every Python snippet of the README and the docs runs as it stands, page by page."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, name, snippets
from tests.support.program import run_program

LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)#?([^)\s]*)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
PROOFS = {"docs/how-to/handlers.md": [pytest.mark.requirement("A20")]}
WITH_SNIPPETS = [
    pytest.param(page, marks=PROOFS.get(name(page), [])) for page in PAGES[1:] if snippets(page)
]
"""All but the README, which has a test of its own."""


@pytest.mark.parametrize("page", WITH_SNIPPETS, ids=name)
def test_a_page_s_snippets_run_in_order(
    page: Path, tmp_path: Path, environment: Mapping[str, str]
) -> None:
    program = tmp_path / "snippets.py"
    program.write_text("\n\n".join(snippets(page)))
    done = run_program(["-W", "error", program], folder=tmp_path, environment=environment)
    assert done.code == 0, done.out + done.err


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_s_links_lead_somewhere(page: Path) -> None:
    links = [(page.parent / match[1] if match[1] else page, match[2]) for match in links_of(page)]
    assert [str(target) for target, _ in links if not target.exists()] == []
    assert [
        f"{target}#{anchor}" for target, anchor in links if anchor and anchor not in anchors(target)
    ] == []


def links_of(page: Path) -> Iterator[re.Match[str]]:
    return LINK.finditer(page.read_text())


def anchors(page: Path) -> set[str]:
    """The headings of a page, as GitHub names them."""
    headings = HEADING.findall(page.read_text())
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def test_the_readme_s_example_is_complete_and_says_what_it_prints(tmp_path: Path) -> None:
    [example] = snippets(ROOT / "README.md")
    said = "receipt over 99 to ann@example.com"
    assert example.rstrip().endswith(f"# {said}")
    program = tmp_path / "shop.py"
    program.write_text(example)
    for _ in range(2):  # whoever tries it, tries it again
        done = run_program(["-W", "error", program], folder=tmp_path, environment={})
        assert (done.out, done.err) == (f"{said}\n", "")
