"""A port for a worker to listen on, and who asks there."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.support.listening import HOST
from tests.support.ports import free_ports
from tests.support.waiting import PATIENCE


@pytest.fixture
def port() -> int:
    """A port that nobody listens on."""
    [port] = free_ports(1)
    return port


@pytest.fixture
async def client(port: int) -> AsyncIterator[httpx.AsyncClient]:
    """Who watches over the worker."""
    address = f"http://{HOST}:{port}"
    async with httpx.AsyncClient(base_url=address, timeout=PATIENCE, trust_env=False) as client:
        yield client
