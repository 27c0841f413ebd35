"""The page on the architecture lists every module, and none that does not exist."""

import re

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "explanation" / "architecture.md"
SOURCE = ROOT / "src" / "postroom"
LISTED = re.compile(r"^\| `(\S+\.py)` \| (.+) \|$", re.MULTILINE)
PATH = re.compile(r"`([a-z_]+/[a-z_/]+\.py)`")


def modules() -> set[str]:
    """The modules below src/postroom; of packages, only the one that users import."""
    found = (path.relative_to(SOURCE) for path in SOURCE.rglob("*.py"))
    return {str(path) for path in found if path.name != "__init__.py"} | {"__init__.py"}


def test_every_module_has_one_line() -> None:
    listed = [match[1] for match in LISTED.finditer(PAGE.read_text())]
    assert sorted(listed) == sorted(modules())


def test_the_explanations_name_no_file_that_does_not_exist() -> None:
    pages = [*PAGE.parent.glob("*.md"), *(ROOT / "docs" / "decisions").glob("*.md")]
    named = {(page.name, path) for page in pages for path in PATH.findall(page.read_text())}
    assert [each for each in named if not exists(each[1])] == []


def exists(path: str) -> bool:
    return (SOURCE / path).exists() or (ROOT / path).exists()
