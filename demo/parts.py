"""The parts of the demo, which the page, the buttons and the narrator all need."""

from dataclasses import dataclass

from demo.broker import Broker
from demo.client import Client
from demo.ledger import Ledger
from demo.story import Names, Story
from demo.watcher import Watcher
from demo.workers import Workers


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
