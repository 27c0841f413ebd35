"""The application of the FastAPI page, started and used as the page says."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, snippets
from tests.support.ports import free_ports
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.extended
PAGE = ROOT / "docs/how-to/fastapi.md"
COMMANDS = re.compile(r"^\$ (uvicorn|curl) (.*)$", re.MULTILINE)


@contextmanager
def serving(arguments: Sequence[str], folder: Path) -> Iterator[Path]:
    """Run uvicorn for as long as the block lasts; give the file that it writes to."""
    log = folder / "log"
    command = [sys.executable, "-u", "-m", "uvicorn", *arguments]
    with log.open("wb") as output:
        server = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield log
    finally:
        server.terminate()
        server.wait(PATIENCE)


def curl(arguments: Sequence[str]) -> str:
    return subprocess.run(["curl", "-s", *arguments], capture_output=True, text=True).stdout


async def test_the_application_of_the_fastapi_page_serves_and_delivers(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("\n\n".join(snippets(PAGE)))
    [port], commands = free_ports(1), dict(COMMANDS.findall(PAGE.read_text()))
    request = commands["curl"].replace("localhost:8000", f"localhost:{port}")
    with serving(["--port", str(port), *shlex.split(commands["uvicorn"])], tmp_path) as log:
        await eventually(lambda: "Uvicorn running" in log.read_text())
        assert '"id"' in curl(shlex.split(request))
        await eventually(lambda: "receipt for order" in log.read_text())
