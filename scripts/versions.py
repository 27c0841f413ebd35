"""Run the tests on the lowest and the highest SQLAlchemy, and on every Python that is supported.

Run as `make test-versions`, or `python -m scripts.versions [pytest's arguments]` from the root of
the repository. Each combination has a virtual environment of its own in .venvs.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PYTHONS = ("3.11", "3.12", "3.13")
SUITES = ("tests/unit", "tests/conformance", "tests/integration")
FOLDER = Path(".venvs")


@dataclass(frozen=True, slots=True)
class Versions:
    """One combination to test."""

    python: str
    sqlalchemy: str

    def __str__(self) -> str:
        return f"Python {self.python}, SQLAlchemy {self.sqlalchemy}"

    @property
    def bin(self) -> Path:
        return FOLDER / f"{self.python}-{self.sqlalchemy}" / "bin"


def sqlalchemy_versions(project: str, constraints: str) -> tuple[str, str]:
    """Read the lowest version that users may have, and the one that we pin."""
    [lowest] = re.findall(r'"SQLAlchemy\[asyncio\]>=([\d.]+),', project)
    [highest] = re.findall(r"(?m)^SQLAlchemy==(\S+)$", constraints)
    return lowest, highest


def combinations(lowest: str, highest: str) -> Iterator[Versions]:
    """List what to test: every Python with the highest SQLAlchemy, the first with the lowest."""
    yield Versions(PYTHONS[0], lowest)
    for python in PYTHONS:
        yield Versions(python, highest)


def is_there(python: str) -> bool:
    """Tell whether a Python is on PATH and starts; a shim of pyenv may be there and not start."""
    try:
        return subprocess.run([f"python{python}", "-V"], capture_output=True).returncode == 0
    except OSError:
        return False


def install(versions: Versions, constraints: str) -> None:
    """Make the environment, or bring it up to date."""
    subprocess.run([f"python{versions.python}", "-m", "venv", versions.bin.parent], check=True)
    pinned = versions.bin.parent / "constraints.txt"
    pinned.write_text(
        re.sub(r"(?m)^SQLAlchemy==.*$", f"SQLAlchemy=={versions.sqlalchemy}", constraints)
    )
    pip = [str(versions.bin / "python"), "-m", "pip", "install", "--quiet"]
    pip += ["--disable-pip-version-check"]
    subprocess.run([*pip, "pip>=25.1"], check=True)  # the first that knows groups
    subprocess.run([*pip, "-c", pinned, "-e", ".[all]", "--group", "dev"], check=True)


def warnings_to_ignore(sqlalchemy: str) -> Sequence[str]:
    """Give pytest's options for what is not ours.

    Before 2.1, a task that is cancelled while SQLAlchemy connects leaves the connection open
    (https://github.com/sqlalchemy/sqlalchemy/issues/13548).
    """
    return ("-W", "ignore:unclosed:ResourceWarning") if sqlalchemy.startswith("2.0.") else ()


def passes(versions: Versions, arguments: Sequence[str]) -> bool:
    """Run the tests; tell whether all passed."""
    jobs = str((os.cpu_count() or 1) + 1)
    pytest = [
        str(versions.bin / "python"),
        "-m",
        "pytest",
        "-q",
        "-n",
        jobs,
        "--no-loadscope-reorder",
        *warnings_to_ignore(versions.sqlalchemy),
    ]
    return subprocess.run([*pytest, *(arguments or SUITES)]).returncode == 0


def main(arguments: Sequence[str]) -> int:
    constraints = Path("constraints.txt").read_text()
    chosen = list(
        combinations(*sqlalchemy_versions(Path("pyproject.toml").read_text(), constraints))
    )
    missing = sorted({each.python for each in chosen if not is_there(each.python)})
    results = {}
    for versions in (each for each in chosen if each.python not in missing):
        print(f"== {versions}", flush=True)
        install(versions, constraints)
        results[versions] = passes(versions, arguments)
    for versions, passed in results.items():
        print(f"{versions}: {'passed' if passed else 'FAILED'}")
    if missing:
        names = " and ".join(f"python{each}" for each in missing)
        print(f"Not tested: {names}, not on PATH. Install: uv python install {' '.join(missing)}")
    return 0 if results and all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
