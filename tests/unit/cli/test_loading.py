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


async def test_a_relay_is_found_in_a_module_of_the_working_directory(write: Write) -> None:
    name = write(f"{RELAY}\nrelay = make()")
    assert await load(f"{name}:relay", OutboxRelay) is sys.modules[name].relay


async def test_the_function_that_makes_a_relay_is_called(write: Write) -> None:
    name = write(RELAY)
    assert isinstance(await load(f"{name}:make", OutboxRelay), OutboxRelay)


async def test_an_async_function_that_makes_a_relay_is_awaited(write: Write) -> None:
    name = write(f"{RELAY}\nasync def make_async():\n    return make()")
    assert isinstance(await load(f"{name}:make_async", OutboxRelay), OutboxRelay)


async def test_a_name_may_have_dots(write: Write) -> None:
    name = write(f"{RELAY}\nclass Container:\n    relay = make()")
    found = await load(f"{name}:Container.relay", OutboxRelay)
    assert found is sys.modules[name].Container.relay


async def test_a_module_may_be_in_a_package(write: Write, tmp_path: Path) -> None:
    package = tmp_path / write("").removesuffix(".py")
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "parts.py").write_text("from postroom.publishers.rabbitmq import *\nT = Topology()")
    assert await load(f"{package.name}.parts:T", Topology) == Topology()


async def test_one_of_several_kinds_will_do(write: Write) -> None:
    name = write("from postroom.publishers.rabbitmq import Topology\nTOPOLOGY = Topology()")
    assert await load(f"{name}:TOPOLOGY", Topology, OutboxRelay) == Topology()


@pytest.mark.parametrize("target", ["shop", "shop:", ":relay", "", ":"])
async def test_what_is_no_path_is_said_to_be_none(target: str) -> None:
    text = await error_of(target)
    assert repr(target) in text
    assert "path.to.module:name of a OutboxRelay" in text


async def test_a_relative_module_is_said_to_be_none(write: Write) -> None:
    assert "..shop" in await error_of("..shop:relay")


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


async def test_an_error_inside_the_module_is_the_users_to_see(write: Write) -> None:
    name = write("1 / 0")
    with pytest.raises(ZeroDivisionError):
        await load(f"{name}:relay", OutboxRelay)
    name = write("def make():\n    raise LookupError('no settings')")
    with pytest.raises(LookupError, match="no settings"):
        await load(f"{name}:make", OutboxRelay)


async def test_a_type_error_inside_a_factory_is_the_users_to_see(write: Write) -> None:
    name = write("def make():\n    return len(5)")
    with pytest.raises(TypeError, match="len"):
        await load(f"{name}:make", OutboxRelay)


async def test_a_module_that_the_users_module_misses_is_the_users_to_see(write: Write) -> None:
    name = write("import no_such_module_at_all")
    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
        await load(f"{name}:relay", OutboxRelay)


RAISE = "raise ModuleNotFoundError('No module named asyncpg', name='asyncpg')"


@pytest.mark.parametrize(
    "text",
    [RAISE, f"def relay():\n    {RAISE}", f"async def relay():\n    {RAISE}"],
    ids=["at import", "in a factory", "in an async factory"],
)
async def test_an_extra_that_the_users_module_misses_is_named(write: Write, text: str) -> None:
    name = write(text)
    assert "pip install 'postroom[postgres]'" in await error_of(f"{name}:relay")
