"""What the tests of every example, and of the demo, can ask for."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.examples.demo import Demo, as_make_does, running_demo
from tests.support.command import Commands, commands_in
from tests.support.services import BROKER_SECRET

ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-")


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    """Start processes for one test; none is left, and none writes a password."""
    with commands_in(tmp_path, BROKER_SECRET, "hunter2") as commands:
        yield commands


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """A demo, which ends by SIGTERM, and whose lines have no ids."""
    with running_demo(tmp_path_factory.mktemp("demo"), as_make_does) as demo:
        yield demo
        demo.end(signal.SIGTERM)
        assert not [line for line in demo.printed if ID.search(line)]


@pytest_asyncio.fixture(loop_scope="session")  # for tests with a browser, too
async def demo(started: Demo) -> Demo:
    """The demo, when its own traffic is delivered and no more comes."""
    started.press("start-broker")  # a test that failed may have left it stopped
    await started.until(lambda state: state["counters"]["delivered"], "traffic begins by itself")
    started.press("stop-traffic")
    await started.until_all_is_delivered()
    return started
