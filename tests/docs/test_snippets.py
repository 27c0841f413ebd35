"""Every Python snippet of the README and the docs runs as it stands, page by page."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, TYPED_ALONG, name, snippets
from tests.support.program import run_program

LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)#?([^)\s]*)\)")
OURS = re.compile(
    r"https://(?:github.com/postroom/postroom/(?:blob|tree)|raw.githubusercontent.com/postroom/postroom)"
    r"/main/([^)#\s\"]+)#?([\w-]*)"
)
"""Absolute links to files of the repository, for pages that PyPI shows."""
FILE = re.compile(r"`([a-z_]+/[a-z_/]+\.py)`")
SOURCE = ROOT / "src/postroom"
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
PROOFS = {"docs/how-to/handlers.md": pytest.mark.requirement("A20")}
WITH_SNIPPETS = [
    pytest.param(page, marks=PROOFS.get(name(page), pytest.mark.extended))
    for page in PAGES
    if page not in TYPED_ALONG and snippets(page)
]


@pytest.mark.parametrize("page", WITH_SNIPPETS, ids=name)
def test_a_page_s_snippets_run_in_order(
    page: Path, tmp_path: Path, environment: Mapping[str, str]
) -> None:
    program = tmp_path / "snippets.py"
    program.write_text("\n\n".join(snippets(page)))
    done = run_program(["-W", "error", program], folder=tmp_path, environment=environment)
    assert done.code == 0, done.out + done.err


@pytest.mark.extended
@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_s_links_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    links = [(page.parent / path if path else page, anchor) for path, anchor in LINK.findall(text)]
    links += [(ROOT / path, anchor) for path, anchor in OURS.findall(text)]
    assert [str(target) for target, _ in links if not target.exists()] == []
    assert [
        f"{target}#{anchor}"
        for target, anchor in links
        if anchor and target.suffix == ".md" and anchor not in anchors(target)
    ] == []


def anchors(page: Path) -> set[str]:
    """The headings of a page, as GitHub names them."""
    headings = HEADING.findall(page.read_text())
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.extended
@pytest.mark.parametrize("folder", ["explanation", "decisions"])
def test_the_files_that_pages_name_exist(folder: str) -> None:
    pages = (ROOT / "docs" / folder).glob("*.md")
    named = {path for page in pages for path in FILE.findall(page.read_text())}
    assert [path for path in named if not any((it / path).exists() for it in (ROOT, SOURCE))] == []


def test_the_readme_s_links_work_on_another_site_too() -> None:
    assert LINK.findall((ROOT / "README.md").read_text()) == []
