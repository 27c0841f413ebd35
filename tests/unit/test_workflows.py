"""The workflows, issue templates and Dependabot's file are valid, and the workflows are safe."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
PROGRAMS = Path(sys.executable).parent


@pytest.mark.parametrize(
    ("schema", "pattern"),
    [
        ("vendor.github-workflows", "workflows/*.yml"),
        ("vendor.dependabot", "dependabot.yml"),
    ],
)
def test_the_files_of_github_have_their_form(schema: str, pattern: str) -> None:
    files = sorted(GITHUB.glob(pattern))
    assert files
    words: list[str | Path] = [PROGRAMS / "check-jsonschema", "--builtin-schema", schema, *files]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_workflows_give_nobody_a_way_in() -> None:
    words: list[str | Path] = [PROGRAMS / "zizmor", "--offline", "--quiet", "--no-progress", GITHUB]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_workflows_call_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    lines = [
        line for file in GITHUB.glob("workflows/*.yml") for line in file.read_text().splitlines()
    ]
    targets = {
        target
        for line in lines
        if line.strip().startswith("- run: make ")
        for target in line.partition("make ")[2].split()
    }
    assert targets
    assert [target for target in targets if f"\n{target}:" not in makefile] == []
