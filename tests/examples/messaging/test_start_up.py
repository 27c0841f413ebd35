"""What an operator sees who starts a process of messaging without a broker."""

import pytest

from tests.examples.applications import NO_BROKER
from tests.examples.messaging.conftest import RELAY
from tests.support.command import PYTHONPATH, Commands

pytestmark = pytest.mark.extended
NO_DATABASE = "postgresql://app:hunter2@127.0.0.1:1/messaging"


async def test_a_worker_says_so_in_one_line(commands: Commands) -> None:
    worker = commands("worker", RELAY, DATABASE_URL=NO_DATABASE, PYTHONPATH=PYTHONPATH)
    assert "there is no broker to deliver to: set RABBITMQ_URL" in await worker.error_line(2)


@pytest.mark.parametrize(
    ("module", "urls", "error"),
    [
        ("messaging.consumer", {}, "set RABBITMQ_URL"),
        ("messaging.audit", {}, "set RABBITMQ_URL"),
        ("messaging.audit", {"RABBITMQ_URL": NO_BROKER}, "the broker cannot be used"),
    ],
)
async def test_a_consumer_says_so_in_one_line(
    commands: Commands, module: str, urls: dict[str, str], error: str
) -> None:
    assert error in await commands.python("-m", module, **urls).error_line(1)
