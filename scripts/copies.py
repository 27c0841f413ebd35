"""An application of examples/ in a folder of its own, beside an installed postroom."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parents[1]
APPLICATIONS = ("accounts", "family", "messaging")


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment."""

    programs: Path

    @property
    def python(self) -> Path:
        return self.programs / "python"

    @classmethod
    def create(cls, folder: Path, wheel: Path | None, extra: str = "") -> Self:
        """Make an environment with a wheel and what an extra of it needs, and nothing else."""
        run(sys.executable, "-m", "venv", folder)
        environment = cls(folder / "bin")
        environment.install("pip>=25.1")  # the first that knows groups
        if wheel is not None:
            environment.install(f"{wheel}[{extra}]" if extra else str(wheel))
        return environment

    def install(self, *words: str | Path, folder: Path = ROOT) -> None:
        quiet = ("--quiet", "--disable-pip-version-check")
        run(self.python, "-m", "pip", "install", *quiet, *words, folder=folder)


def run_copy(application: str, environment: Environment, folder: Path, **variables: str) -> str:
    """Copy an application, install it, run its tests; return what they print."""
    copy = folder / "copy" / application
    ignored = shutil.ignore_patterns("__pycache__", ".*_cache", "*.db", "*.egg-info")
    shutil.copytree(ROOT / "examples" / application, copy, ignore=ignored)
    environment.install("--editable", ".", "--group", "test", folder=copy)
    addresses = {**written_addresses(), **variables}
    return run(environment.python, "-m", "pytest", "-q", folder=copy, variables=addresses)


def written_addresses() -> dict[str, str]:
    """The servers that `make services` has found, by the names that the applications' tests use."""
    names = {
        "POSTROOM_TEST_POSTGRES_URL": "TEST_DATABASE_URL",
        "POSTROOM_TEST_RABBITMQ_URL": "TEST_RABBITMQ_URL",
    }
    lines = (ROOT / ".services" / "env").read_text().splitlines()
    known = dict(line.split("=", 1) for line in lines) | dict(os.environ)
    return {theirs: known[ours] for ours, theirs in names.items()}


def run(*words: str | Path, folder: Path = ROOT, variables: Mapping[str, str] | None = None) -> str:
    """Run a command; raise with what it prints if it fails."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(Path.home()), **(variables or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}\n{done.stdout}")
    return done.stdout
