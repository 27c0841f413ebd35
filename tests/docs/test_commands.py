"""Every `postroom` command of the README and the docs runs, and prints what the page says."""

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest
from sqlalchemy import MetaData, create_engine, make_url

from postroom import Outbox, OutboxRecord
from postroom.publishers.rabbitmq.amqp.address import parse
from tests.docs.pages import PAGES, ROOT, TYPED_ALONG, Command, commands, name, snippets
from tests.support.command import SCRIPT
from tests.support.program import Program, run_program

pytestmark = pytest.mark.extended
PATH = {"PATH": os.environ["PATH"]}
DATABASE, BROKER = "postgresql://app:secret@db:5432/shop", "amqp://app:secret@mq:5672/shop"
"""How the docs call them."""
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
BEGUN = (": delivers from ", "The console of ")


class DocsRecord(OutboxRecord):
    pass


docs_outbox = Outbox(MetaData(), record=DocsRecord)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page not in TYPED_ALONG and commands(page)], ids=name
)
def test_a_page_s_commands_print_what_it_says(
    page: Path, tmp_path: Path, database_url: str, rabbitmq_url: str
) -> None:
    create_tables(database_url)
    (tmp_path / "shop.py").write_text("\n\n".join(snippets(page)))
    urls = {"DATABASE_URL": database_url, "RABBITMQ_URL": rabbitmq_url}
    for command in commands(page):
        words = command.words.replace(DATABASE, database_url).replace(BROKER, rabbitmq_url)
        printed = run(words, command, tmp_path, urls)
        if command.printed:
            assert in_the_docs(printed, database_url, rabbitmq_url) == command.printed


WORKER = ROOT / "docs/operate/worker.md"


def test_what_a_module_raises_is_the_line_that_the_page_shows(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("\n\n".join(snippets(WORKER)))
    done = run_program([SCRIPT, "worker", "shop:relay"], folder=tmp_path, environment=PATH)
    assert done.code == 2
    [line] = done.err.splitlines()
    assert line in WORKER.read_text().splitlines()


def create_tables(database_url: str) -> None:
    engine = create_engine(make_url(database_url).set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        docs_outbox.create_tables(connection)
    engine.dispose()


def run(words: str, command: Command, folder: Path, urls: Mapping[str, str]) -> str:
    """Run a command to its end; one that would stay is told to stop once it has begun."""
    program, *rest = shlex.split(words)
    arguments = [str(SCRIPT), *rest] if program == "postroom" else rest
    reader, writer = os.pipe()
    with os.fdopen(reader, encoding="utf-8") as output:
        with os.fdopen(writer, "wb") as end:
            process = Program(
                arguments, folder=folder, environment={**urls, **PATH}, stdout=end, stderr=end
            )
        printed = ""
        for line in output:
            printed += line
            if command.stays and any(each in line for each in BEGUN):
                process.terminate()
                break
        more = output.read()
    assert process.wait() == 0, f"{words}\n{printed}{more}"
    return printed


def in_the_docs(printed: str, database_url: str, rabbitmq_url: str) -> str:
    """Give servers and times the names that the docs give them."""
    database = make_url(database_url)
    port = f":{database.port}" if database.port else ""
    here = f"database `{database.database}` at {database.host}{port}"
    printed = printed.replace(here, "database `shop` at db:5432")
    printed = printed.replace(str(parse(rabbitmq_url)[0]), "mq:5672/shop")
    return MOMENT.sub("2026-01-31T12:00:00.000Z", printed)
