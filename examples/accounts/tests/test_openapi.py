"""Whatever is sent, the application keeps to what it says of itself."""

import sys
from pathlib import Path

from tests.support.command import Commands
from tests.support.server import Server

SCHEMATHESIS = str(Path(sys.executable).with_name("schemathesis"))
# Not every password that is long enough is strong enough, and a schema cannot say so.
CHECKS = "--checks all --exclude-checks positive_data_acceptance"
OPTIONS = f"{CHECKS} --phases examples,coverage,fuzzing --max-examples 10 --seed 1"


async def test_nothing_that_is_sent_is_a_server_error(commands: Commands, server: Server) -> None:
    words = ["run", f"{server.url}/openapi.json", *OPTIONS.split(), "--no-color"]
    command = commands.start(SCHEMATHESIS, *words, HOME=str(commands.directory))
    assert await command.code() == 0, command.out + command.err
    assert "Tested: 4" in command.out
