"""The hosts of a broker: a connection to the first of them that lets us in."""

import random
from collections.abc import Sequence
from datetime import timedelta
from itertools import cycle, islice
from typing import Final

from postroom.publishers.rabbitmq.amqp.address import parse
from postroom.publishers.rabbitmq.amqp.connect import connect
from postroom.publishers.rabbitmq.amqp.connection import Connection
from postroom.publishers.rabbitmq.amqp.errors import ConnectError

CONNECT_WITHIN: Final = timedelta(seconds=5)


class Cluster:
    """One host or several, tried in turn, in an order that is drawn once.

    - `urls`: a URL, which may name several hosts, or several URLs
    - `within`: how long each host may take to let us in
    """

    def __init__(self, urls: str | Sequence[str], *, within: timedelta = CONNECT_WITHIN) -> None:
        self.addresses = parse(urls)
        self._within = within.total_seconds()
        self._turns = cycle(random.sample(self.addresses, len(self.addresses)))

    def __str__(self) -> str:
        return " or ".join(map(str, self.addresses))

    async def connect(self) -> Connection:
        """Connect to the host after the one that was tried last, or to the next that lets us in.

        Raises ConnectError, which names each host and its reason; AddressError.
        """
        refusals: list[ConnectError] = []
        for address in islice(self._turns, len(self.addresses)):
            try:
                return await connect(address, within=self._within)
            except ConnectError as error:
                refusals.append(error)
        raise ConnectError("; ".join(map(str, refusals))) from refusals[-1]
