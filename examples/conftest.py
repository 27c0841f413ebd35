"""What the tests of every example can ask for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import Commands, commands_in


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    """Start processes for one test; none is left, and none writes a password."""
    with commands_in(tmp_path, "guest:guest") as commands:
        yield commands


@pytest.fixture(scope="session")
def session_commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """Start processes that all tests share: servers, whose tests use data of their own."""
    with commands_in(tmp_path_factory.mktemp("processes"), "guest:guest") as commands:
        yield commands
