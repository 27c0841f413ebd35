"""The event loop of a suite."""

import asyncio
import sys
from collections.abc import Callable, Mapping

import pytest

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, LoopFactory]:
    """Run the classes whose names end so on uvloop."""
    suite = getattr(item, "cls", None)
    if sys.platform == "win32" or suite is None or not suite.__name__.endswith("OnUvloop"):
        return {"asyncio": asyncio.new_event_loop}
    import uvloop

    return {"uvloop": uvloop.new_event_loop}
