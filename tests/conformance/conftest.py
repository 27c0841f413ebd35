"""The event loop of a suite, and the tables that it begins with."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from tests.support.shop import Base

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, LoopFactory]:
    """Run the classes whose names end so on uvloop."""
    suite = getattr(item, "cls", None)
    if sys.platform == "win32" or suite is None or not suite.__name__.endswith("OnUvloop"):
        return {"asyncio": asyncio.new_event_loop}
    import uvloop

    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shop's tables in a SQLite file. Tests copy it: to create them takes far longer."""
    file = tmp_path_factory.mktemp("empty") / "shop.db"
    engine = create_engine(f"sqlite:///{file}")
    Base.metadata.create_all(engine)
    engine.dispose()
    return file
