"""Every Python snippet of the README and the docs runs as it stands, page by page."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, name, snippets

LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)#?([^)\s]*)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in PAGES if snippets(page)], ids=name)
def test_a_page_s_snippets_run_in_order(
    page: Path, tmp_path: Path, environment: Mapping[str, str]
) -> None:
    program = tmp_path / "snippets.py"
    program.write_text("\n\n".join(snippets(page)))
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        cwd=tmp_path,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


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
    for _ in range(2):  # whoever tries it, tries it again
        command = [sys.executable, "-c", example]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert (done.stdout, done.stderr) == (f"{said}\n", "")
