"""Whatever is sent, the application keeps to what it says of itself."""

import sys
from pathlib import Path

from tests.examples.messaging.account import Account
from tests.support.command import Commands
from tests.support.server import Server
from tests.support.waiting import FULL

SCHEMATHESIS = str(Path(sys.executable).with_name("schemathesis"))
# What a message refers to has to be there, and a time has to come to pass: no schema says so.
# Starlette's answer to a method that there is not names the methods of one route, not of the path.
EXCEPT = "positive_data_acceptance,allow_header_conformance"
CHECKS = f"--checks all --exclude-checks {EXCEPT}"
PHASES = "examples,coverage,fuzzing --max-examples 50" if FULL else "fuzzing --max-examples 5"
OPTIONS = f"{CHECKS} --phases {PHASES} --seed 1"


async def test_nothing_that_is_sent_is_a_server_error(
    commands: Commands, server: Server, account: Account
) -> None:
    headers = [f"--header={name}: {value}" for name, value in account.headers.items()]
    words = ["run", f"{server.url}/openapi.json", *OPTIONS.split(), *headers, "--no-color"]
    command = commands.execute(SCHEMATHESIS, *words, HOME=str(commands.directory))
    assert await command.code() == 0, command.out + command.err
    assert "Tested: 17" in command.out
