"""Every test that the page on reliability names exists, and its section's command runs it."""

import ast
import re
from functools import cache

import pytest

from tests.docs.pages import ROOT

pytestmark = pytest.mark.extended
PAGE = ROOT / "docs" / "explanation" / "reliability.md"
SECTION = re.compile(r"^## (.+)\n", re.MULTILINE)
PROOF = re.compile(
    r"\| \[`([\w/]+\.py)::(\w+)`\]\(\.\./\.\./tests/([\w/]+\.py)\) \|$", re.MULTILINE
)
COMMAND = re.compile(r'^make test ARGS="(.+)"$', re.MULTILINE)
PARTS = SECTION.split(PAGE.read_text())[1:]
SECTIONS = {
    title: text
    for title, text in zip(PARTS[::2], PARTS[1::2], strict=True)
    if "| fault | test |" in text
}
PROOFS = [each for text in SECTIONS.values() for each in PROOF.findall(text)]


@cache
def functions_of(file: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, functions)}


@pytest.mark.parametrize(("file", "name", "link"), PROOFS)
def test_a_named_test_exists(file: str, name: str, link: str) -> None:
    assert file == link
    assert name in functions_of(file)


@pytest.mark.parametrize("title", SECTIONS)
def test_the_command_of_a_section_runs_its_tests(title: str) -> None:
    [command] = COMMAND.findall(SECTIONS[title])
    files = dict.fromkeys(f"tests/{file}" for file, _, _ in PROOF.findall(SECTIONS[title]))
    assert command.split() == list(files)


def test_every_line_of_the_tables_names_a_test() -> None:
    lines = [line for text in SECTIONS.values() for line in text.splitlines() if "::" in line]
    assert len(lines) == len(PROOFS) > 50
