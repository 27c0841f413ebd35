"""The parts of `make test-versions` that decide without running anything."""

from pathlib import Path

import pytest

from scripts.versions import combinations, is_there, lowest_versions, main

pytestmark = pytest.mark.requirement("E14")
ROOT = Path(__file__).parents[2]


def test_the_lowest_versions_are_those_that_users_may_have() -> None:
    pins = lowest_versions((ROOT / "pyproject.toml").read_text()).splitlines()
    assert "SQLAlchemy==2.0.31" in pins
    assert "asyncpg==0.30" in pins
    assert not [pin for pin in pins if pin.startswith("postroom")]


def test_every_python_is_tested_and_the_lowest_versions() -> None:
    project, constraints = (ROOT / "pyproject.toml", ROOT / "constraints.txt")
    chosen = list(combinations(project.read_text(), constraints.read_text()))
    assert [str(each) for each in chosen] == [
        "Python 3.11, lowest versions",
        "Python 3.11, pinned versions",
        "Python 3.12, pinned versions",
        "Python 3.13, pinned versions",
    ]
    assert "SQLAlchemy==2.1." in chosen[-1].pins


def test_a_python_that_does_not_start_is_not_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shim = tmp_path / "python3.13"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert not is_there("3.13")
    assert not is_there("3.99")


def test_missing_pythons_are_named_in_one_line_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main([]) == 1
    assert capsys.readouterr().out == (
        "Not tested: python3.11 and python3.12 and python3.13, not on PATH."
        " Install: uv python install 3.11 3.12 3.13\n"
    )
