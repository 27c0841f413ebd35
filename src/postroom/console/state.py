"""What the pages of one console share."""

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.requests import Request

from postroom.console.access import Access, Visitor
from postroom.console.checkup import Checkup
from postroom.console.jobs import Jobs
from postroom.console.samples import Samples
from postroom.inspection import Inspector
from postroom.operations import Operations
from postroom.outbox import Outbox
from postroom.relay.relay import OutboxRelay
from postroom.wakeup.notifier import CHANNEL


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleState:
    """The outbox of a console, and what the console knows about it."""

    outbox: Outbox
    engine: AsyncEngine
    relay: OutboxRelay | None
    inspector: Inspector
    access: Access
    read_only: bool
    place: str
    """The table and its database in words, without a password."""
    trace_url: str | None
    """The address of a trace, with `{trace_id}` in it."""
    samples: Samples
    jobs: Jobs
    checkup: Checkup

    def operations(self, visitor: Visitor | None) -> Operations:
        """Return what changes the outbox in the name of a visitor."""
        channel = CHANNEL if self.relay is None else self.relay.settings.listen
        name = None if visitor is None else visitor.name
        return Operations(self.outbox, self.engine, operator=name, channel=channel)


def state_of(request: Request) -> ConsoleState:
    """Return the state of the console that a request is for."""
    state: ConsoleState = request.app.state.console
    return state
