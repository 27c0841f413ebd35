"""Whatever is sent, the application keeps to what it says of itself."""

import sys
from pathlib import Path

from tests.support.command import Commands
from tests.support.server import Server
from tests.support.waiting import FULL

SCHEMATHESIS = str(Path(sys.executable).with_name("schemathesis"))
# Not every password that is long enough is strong enough, and a schema cannot say so.
CHECKS = "--checks all --exclude-checks positive_data_acceptance"
PHASES = "examples,coverage,fuzzing --max-examples 50" if FULL else "fuzzing --max-examples 5"
OPTIONS = f"{CHECKS} --phases {PHASES} --seed 1"


async def test_nothing_that_is_sent_is_a_server_error(commands: Commands, server: Server) -> None:
    words = ["run", f"{server.url}/openapi.json", *OPTIONS.split(), "--no-color"]
    command = commands.execute(SCHEMATHESIS, *words, HOME=str(commands.directory))
    assert await command.code() == 0, command.out + command.err
    assert "Tested: 5" in command.out
