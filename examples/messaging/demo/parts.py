"""The parts of the demo, which the page, the buttons and the narrator all need."""

from dataclasses import dataclass

from examples.messaging.demo.broker import Broker
from examples.messaging.demo.client import Client
from examples.messaging.demo.ledger import Ledger
from examples.messaging.demo.story import Names, Story
from examples.messaging.demo.watcher import Watcher
from examples.messaging.demo.workers import Workers


@dataclass(slots=True, kw_only=True)
class Parts:
    """The parts, made in `__main__`."""

    story: Story
    names: Names
    ledger: Ledger
    broker: Broker
    workers: Workers
    watcher: Watcher
    client: Client
    traffic: bool = True
    """Whether messages are sent without anybody asking for them."""
