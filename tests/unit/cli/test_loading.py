"""What a user names as module:name, found or an error."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from postroom import OutboxRelay
from postroom.cli.errors import CommandError, Exit
from postroom.cli.loading import load
from postroom.publishers.rabbitmq import Topology

Write = Callable[[str], str]
RELAY = """
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine
from postroom import MemoryPublisher, Outbox, OutboxRecord, OutboxRelay

class Record(OutboxRecord):
    pass

def make():
    engine = create_async_engine("sqlite+aiosqlite:///nothing.db")
    return OutboxRelay(Outbox(MetaData(), record=Record), engine, MemoryPublisher())
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write a module into the working directory; give its name, which is nobody else's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)

    def write(text: str) -> str:
        name = f"app_{uuid4().hex}"
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        return name

    yield write
    for name in sys.modules.keys() - known:
        if name.startswith("app_"):
            del sys.modules[name]


async def error_of(target: str, *kinds: type) -> str:
    with pytest.raises(CommandError) as caught:
        await load(target, *(kinds or (OutboxRelay,)))
    assert caught.value.code == Exit.USAGE
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("relay = make()", "relay"),
        ("", "make"),
        ("async def make_async():\n    return make()", "make_async"),
        ("class Container:\n    relay = make()", "Container.relay"),
    ],
)
async def test_a_relay_or_what_makes_it_is_found_in_a_module_of_the_working_directory(
    write: Write, text: str, path: str
) -> None:
    name = write(f"{RELAY}\n{text}")
    found = await load(f"{name}:{path}", Topology, OutboxRelay)
    assert isinstance(found, OutboxRelay)
    if path == "relay":
        assert found is sys.modules[name].relay


async def test_a_module_may_be_in_a_package(write: Write, tmp_path: Path) -> None:
    package = tmp_path / write("").removesuffix(".py")
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "parts.py").write_text("from postroom.publishers.rabbitmq import *\nT = Topology()")
    assert await load(f"{package.name}.parts:T", Topology) == Topology()


@pytest.mark.parametrize("target", ["shop", "shop:", ":relay", "", ":", "..shop:relay"])
async def test_what_is_no_path_is_said_to_be_none(write: Write, target: str) -> None:
    text = await error_of(target)
    assert target in text
    assert target.startswith("..") or "path.to.module:name of a OutboxRelay" in text


async def test_a_module_that_is_not_there_is_named_with_where_it_was_looked_for(
    write: Write, tmp_path: Path
) -> None:
    text = await error_of("no_such_module.outbox:relay")
    assert "no module 'no_such_module'" in text
    assert str(tmp_path) in text
    package = write("")
    assert f"no module '{package}.outbox'" in await error_of(f"{package}.outbox:relay")


async def test_a_name_that_is_not_there_is_told_with_those_that_are(write: Write) -> None:
    name = write(f"{RELAY}\nmy_relay = make()")
    text = await error_of(f"{name}:relay")
    assert f"module {name} has no 'relay'" in text
    assert "It has my_relay." in text


@pytest.mark.parametrize("path", ["nothing", "number.real.nothing", "slots.nothing"])
async def test_a_name_that_nothing_is_like_is_told_too(write: Write, path: str) -> None:
    name = write("number = 5\nclass Slots:\n    __slots__ = ()\nslots = Slots()")
    text = await error_of(f"{name}:{path}")
    assert repr(path) in text
    assert "Check the spelling." in text


@pytest.mark.parametrize("path", ["number", "make", "nothing"])
async def test_what_is_of_another_kind_is_named(write: Write, path: str) -> None:
    name = write("number = 5\nnothing = None\ndef make():\n    return 5")
    text = await error_of(f"{name}:{path}", Topology, OutboxRelay)
    kind = "NoneType" if path == "nothing" else "int"
    assert text == f"{name}:{path} is a {kind}, not a Topology or a OutboxRelay."


@pytest.mark.parametrize("path", ["needs", "OutboxRelay"])
async def test_what_cannot_be_called_without_arguments_is_an_error(write: Write, path: str) -> None:
    name = write(f"{RELAY}\ndef needs(engine):\n    return engine")
    assert f"{name}:{path}" in await error_of(f"{name}:{path}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\n1 / 0 or 'postgresql://app:hunter2@db/shop'", "line 2: ZeroDivisionError: division"),
        ("import json\n\njson.loads('{')", "line 3: JSONDecodeError: Expecting property name"),
        ("import no_such_module_at_all", "line 1: ModuleNotFoundError: No module named 'no_such"),
        ("import os\nos.environ['NO_SUCH']", "line 2: KeyError: 'NO_SUCH'"),
        ("def relay():\n    raise LookupError('none')", "line 2: LookupError: none"),
        ("async def relay():\n    return len(5)", "line 2: TypeError: object of type 'int'"),
    ],
    ids=["at import", "in a library", "a module", "a variable", "in a factory", "async"],
)
async def test_what_the_users_module_raises_is_named_with_its_line(
    write: Write, text: str, said: str
) -> None:
    name = write(text)
    found = await error_of(f"{name}:relay")
    assert found.startswith(f"cannot load {name}:relay: {name}.py, {said}")
    assert "hunter2" not in found  # no line of the module is shown


async def test_a_syntax_error_is_named_with_its_line(write: Write) -> None:
    name = write("def relay(:")
    said = await error_of(f"{name}:relay")
    assert said.startswith(f"cannot load {name}:relay: SyntaxError: ")
    assert f"({name}.py, line 1)" in said


ENGINE = """
import os
from sqlalchemy.ext.asyncio import create_async_engine
engine = create_async_engine(os.environ['DATABASE_URL'])
"""


@pytest.mark.parametrize("url", ["hunter2", "postgresql+asyncpg://app:x@db:hunter2/shop"])
async def test_a_url_that_cannot_be_read_is_not_shown(
    write: Write, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("DATABASE_URL", url)
    name = write(ENGINE)
    assert await error_of(f"{name}:relay") == (
        f"cannot load {name}:relay: {name}.py, line 4: the URL of a database cannot be read."
    )


async def test_a_driver_that_is_not_async_is_told_with_those_that_are(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "sqlite:///shop.db")
    said = await error_of(f"{write(ENGINE)}:relay")
    assert said.endswith(" Write postgresql+asyncpg://, or sqlite+aiosqlite://.")


@pytest.mark.parametrize("module", ["psycopg", "psycopg2"])
async def test_a_url_without_a_driver_is_told_to_name_asyncpg(
    write: Write, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setenv("DATABASE_URL", f"postgresql+{module}://app:hunter2@db/shop")
    name = write(ENGINE)
    said = await error_of(f"{name}:relay")
    assert said.startswith(f"cannot load {name}:relay: {name}.py, line 4: ModuleNotFoundError: ")
    assert said.endswith("SQLAlchemy needs it for postgresql://. Write postgresql+asyncpg://.")


RAISE = "raise ModuleNotFoundError('No module named asyncpg', name='asyncpg')"


@pytest.mark.parametrize(
    "text",
    [RAISE, f"def relay():\n    {RAISE}", f"async def relay():\n    {RAISE}"],
    ids=["at import", "in a factory", "in an async factory"],
)
async def test_an_extra_that_the_users_module_misses_is_named(write: Write, text: str) -> None:
    name = write(text)
    assert "pip install 'postroom[postgres]'" in await error_of(f"{name}:relay")
