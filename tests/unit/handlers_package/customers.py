"""A module of handlers."""

from postroom import handles
from tests.unit.handlers_package.events import ParcelSent


@handles(ParcelSent)
class TellCustomer:
    async def handle(self, event: ParcelSent) -> None: ...
