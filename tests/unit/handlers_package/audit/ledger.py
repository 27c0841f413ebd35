"""A module further down."""

from postroom import handles
from tests.unit.handlers_package.events import ParcelLost, ParcelSent


@handles(ParcelSent)
@handles(ParcelLost)
class WriteLedger:
    async def handle(self, event: ParcelSent | ParcelLost) -> None: ...
