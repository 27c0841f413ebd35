"""Whatever is sent, an application keeps to what it says of itself; its pages need nobody else."""

import sys
from pathlib import Path

import pytest

from tests.examples.applications import own_database, start
from tests.examples.page import files_of_page
from tests.support.command import Commands
from tests.support.waiting import FULL

pytestmark = pytest.mark.extended

SCHEMATHESIS = str(Path(sys.executable).with_name("schemathesis"))
# Not every password that is long enough is strong enough, what a message refers to has to be
# there, and a time has to come to pass: no schema says so. Starlette's answer to a method that
# there is not names the methods of one route, not of the path.
EXCEPT = "positive_data_acceptance,allow_header_conformance"
PHASES = "examples,coverage,fuzzing --max-examples 50" if FULL else "fuzzing --max-examples 5"
OPTIONS = f"--checks all --exclude-checks {EXCEPT} --phases {PHASES} --seed 1 --no-color"
USER = "6a1f8e3c-2f57-4d5c-9c0e-5d0f6a7b8c9d"
SIGNED_IN = f"--header=X-User-Id:{USER} --header=X-Account-Id:{USER}"
SWAGGER_UI = {
    "/openapi.json",
    "/static-offline-docs/favicon.png",
    "/static-offline-docs/swagger-ui-bundle.js",
    "/static-offline-docs/swagger-ui.css",
}
GRAPHIQL = {
    "graphiql/graphiql.css",
    "graphiql/graphiql.min.js",
    "graphiql/react-dom.production.min.js",
    "graphiql/react.production.min.js",
}


@pytest.mark.parametrize(("application", "operations"), [("accounts", 5), ("messaging", 17)])
async def test_nothing_that_is_sent_is_a_server_error(
    application: str, operations: int, commands: Commands
) -> None:
    with own_database(application) as database_url:
        server = start(commands, application, database_url)
        words = ["run", f"{server.url}/openapi.json", *OPTIONS.split(), *SIGNED_IN.split()]
        command = commands.execute(SCHEMATHESIS, *words, HOME=str(commands.directory))
        assert await command.code() == 0, command.out + command.err
    assert f"Tested: {operations}" in command.out


@pytest.mark.parametrize(
    ("application", "path", "files"),
    [
        ("accounts", "/docs", SWAGGER_UI),
        ("family", "/graphql", GRAPHIQL),
        ("messaging", "/docs", SWAGGER_UI),
    ],
)
async def test_its_page_needs_no_other_host(
    application: str, path: str, files: set[str], commands: Commands
) -> None:
    with own_database(application) as database_url:
        async with start(commands, application, database_url).client() as client:
            assert await files_of_page(client, path) == files
