"""Declares a topology again when messages show that a part of it is gone."""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Final

from postroom.errors import ConfigurationError
from postroom.publishers.rabbitmq.amqp.connection import Connection
from postroom.publishers.rabbitmq.amqp.inquiry import Inquiry
from postroom.publishers.rabbitmq.amqp.outgoing import Answer
from postroom.publishers.rabbitmq.declare import declare
from postroom.publishers.rabbitmq.parcel import Parcel
from postroom.publishers.rabbitmq.topology import Topology

logger = logging.getLogger("postroom.publishers")

DECLARE_EVERY: Final = 5.0
"""Seconds between two declarations at least."""


class Restorer:
    """Declares a topology again, over one connection."""

    def __init__(self, connection: Connection, topology: Topology) -> None:
        self._connection = connection
        self._topology = topology
        self._declaring = asyncio.Lock()
        self._began = float("-inf")
        """When the last declaration began."""
        self._problem = ""

    async def restore(self, parcels: Sequence[Parcel]) -> list[Parcel]:
        """Return the parcels to send again, because what should take them is declared again.

        Raises ClosedError.
        """
        asked = time.monotonic()
        missing = [each for each in parcels if self._should_take(each)]
        if not missing or not await self._declare(asked):
            return []
        return missing

    def _should_take(self, parcel: Parcel) -> bool:
        """Tell whether a parcel was not taken, and a queue or exchange of the topology should."""
        exchange, routing_key = parcel.place
        if parcel.waits_for == exchange:
            return any(each.name == exchange for each in self._topology.exchanges)
        returned = parcel.answer is Answer.RETURNED
        return returned and self._topology.routes(exchange, routing_key)

    async def _declare(self, asked: float) -> bool:
        """Declare the topology, unless that was done a moment ago; tell whether it is declared."""
        async with self._declaring:
            if self._began >= asked:  # by another call, while this one waited
                return True
            if asked - self._began < DECLARE_EVERY:
                return False
            self._began = time.monotonic()
            try:
                async with Inquiry(self._connection) as inquiry:
                    await declare(inquiry, self._topology)
            except ConfigurationError as error:
                level = logging.DEBUG if str(error) == self._problem else logging.WARNING
                logger.log(level, "postroom: cannot declare the topology again: %s", error)
                self._problem = str(error)
                return False
            self._problem = ""
            return True
