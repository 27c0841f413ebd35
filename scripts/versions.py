"""Run the tests on every supported Python, and on the lowest versions of all that users install.

Run as `make test-versions`, or `python -m scripts.versions [pytest's arguments]` from the root of
the repository. Each combination has a virtual environment of its own in .venvs.
"""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PYTHONS = ("3.11", "3.12", "3.13")
SUITES = ("tests/unit", "tests/conformance", "tests/integration")
FOLDER = Path(".venvs")
LOWEST = re.compile(r"([\w.-]+)(?:\[.*\])?>=([\d.]+)")


@dataclass(frozen=True, slots=True)
class Versions:
    """One combination to test: a Python, with pinned versions of libraries."""

    python: str
    libraries: str
    pins: str = field(repr=False)
    group: str = "dev"

    def __str__(self) -> str:
        return f"Python {self.python}, {self.libraries}"

    @property
    def bin(self) -> Path:
        return FOLDER / f"{self.python}-{self.libraries.replace(' ', '-')}" / "bin"


def lowest_versions(project: str) -> str:
    """Pin what users install, extras included, to the lowest versions that pyproject allows."""
    table = tomllib.loads(project)["project"]
    extras = [each for extra in table["optional-dependencies"].values() for each in extra]
    found = [LOWEST.match(each) for each in (*table["dependencies"], *extras)]
    return "".join(sorted({f"{each[1]}=={each[2]}\n" for each in found if each}))


def combinations(project: str, constraints: str) -> Iterator[Versions]:
    """List what to test: the first Python with the lowest versions, all with what we pin."""
    yield Versions(PYTHONS[0], "lowest versions", lowest_versions(project), "tests")
    for python in PYTHONS:
        yield Versions(python, "pinned versions", constraints)


def is_there(python: str) -> bool:
    """Tell whether a Python is on PATH and starts; a shim of pyenv may be there and not start."""
    try:
        return subprocess.run([f"python{python}", "-V"], capture_output=True).returncode == 0
    except OSError:
        return False


def install(versions: Versions) -> None:
    """Make the environment, or bring it up to date."""
    subprocess.run([f"python{versions.python}", "-m", "venv", versions.bin.parent], check=True)
    pins = versions.bin.parent / "constraints.txt"
    pins.write_text(versions.pins)
    pip = [
        str(versions.bin / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    subprocess.run([*pip, "pip>=25.1"], check=True)  # the first that knows groups
    words = ["-c", str(pins), "-e", ".[all]", "--group", versions.group]
    subprocess.run([*pip, *words], check=True)


def warnings_to_ignore(pins: str) -> Sequence[str]:
    """Give pytest's options for what is not ours.

    Before 2.1, a task that is cancelled while SQLAlchemy connects leaves the connection open
    (https://github.com/sqlalchemy/sqlalchemy/issues/13548).
    """
    return ("-W", "ignore:unclosed:ResourceWarning") if "SQLAlchemy==2.0." in pins else ()


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
        *warnings_to_ignore(versions.pins),
    ]
    return subprocess.run([*pytest, *(arguments or SUITES)]).returncode == 0


def main(arguments: Sequence[str]) -> int:
    constraints = Path("constraints.txt").read_text()
    chosen = list(combinations(Path("pyproject.toml").read_text(), constraints))
    missing = sorted({each.python for each in chosen if not is_there(each.python)})
    results = {}
    for versions in (each for each in chosen if each.python not in missing):
        print(f"== {versions}", flush=True)
        install(versions)
        results[versions] = passes(versions, arguments)
    for versions, passed in results.items():
        print(f"{versions}: {'passed' if passed else 'FAILED'}")
    if missing:
        names = " and ".join(f"python{each}" for each in missing)
        print(f"Not tested: {names}, not on PATH. Install: uv python install {' '.join(missing)}")
    return 0 if results and all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
