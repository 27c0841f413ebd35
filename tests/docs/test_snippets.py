"""Every Python snippet of the README and the docs runs as it stands, page by page."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SNIPPET = re.compile(r"^( *)```python\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?://)([^)#\s]+)")


def snippets(page: Path) -> list[str]:
    return [match[2] for match in SNIPPET.finditer(page.read_text())]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if snippets(page)], ids=name)
def test_a_page_s_snippets_run_in_order(page: Path, tmp_path: Path) -> None:
    program = tmp_path / "snippets.py"
    program.write_text("\n\n".join(snippets(page)))
    command = [sys.executable, "-W", "error", str(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_s_links_lead_somewhere(page: Path) -> None:
    targets = [match[1] for match in LINK.finditer(page.read_text())]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_readme_s_example_is_complete_and_says_what_it_prints(tmp_path: Path) -> None:
    [example] = snippets(ROOT / "README.md")
    command = [sys.executable, "-c", example]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "OrderPlaced 99 pending\n"
    assert example.rstrip().endswith("# OrderPlaced 99 pending")
