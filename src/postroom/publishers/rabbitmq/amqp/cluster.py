"""Several hosts: connects to the first that accepts."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from inspect import isawaitable
from itertools import cycle, islice
from typing import Any, Final

from postroom.publishers.rabbitmq.amqp.address import Address, parse
from postroom.publishers.rabbitmq.amqp.connect import connect
from postroom.publishers.rabbitmq.amqp.connection import Connection
from postroom.publishers.rabbitmq.amqp.errors import AddressError, ConnectError, one_line

CONNECT_WITHIN: Final = timedelta(seconds=5)
Login = tuple[str, str]
Credentials = Callable[[], Login | Awaitable[Login]]
"""A function that returns user and password, or an awaitable of them."""


class Cluster:
    """One host or several, tried in turn, in an order that is drawn once.

    - `urls`: a URL, which may name several hosts, or several URLs
    - `within`: how long each host may take to let us in
    - `credentials`: called whenever it connects, for user and password; those of a URL are unused
    """

    def __init__(
        self,
        urls: str | Sequence[str],
        *,
        within: timedelta = CONNECT_WITHIN,
        credentials: Credentials | None = None,
    ) -> None:
        self.addresses = parse(urls)
        if credentials is not None and any(each.external for each in self.addresses):
            raise AddressError(
                "auth_mechanism=external in the broker's URL logs in by certificate. Leave out"
                " `credentials`, or auth_mechanism."
            )
        self._credentials = credentials
        self._within = within.total_seconds()
        self._turns = cycle(random.sample(self.addresses, len(self.addresses)))

    def __str__(self) -> str:
        return " or ".join(map(str, self.addresses))

    async def connect(self) -> Connection:
        """Connect to the host after the one that was tried last, or to the next that lets us in.

        Raises ConnectError, which names each host and its reason; AddressError.
        """
        login = await self._login()
        refusals: list[ConnectError] = []
        for address in islice(self._turns, len(self.addresses)):
            try:
                return await self._connect(address, login)
            except ConnectError as error:
                refusals.append(error)
        raise ConnectError("; ".join(map(str, refusals))) from refusals[-1]

    async def refusals(self) -> list[ConnectError]:
        """Connect to every host in turn, and return the error of each that does not let us in."""
        login = await self._login()
        refusals: list[ConnectError] = []
        for address in self.addresses:
            try:
                await (await self._connect(address, login)).close()
            except ConnectError as error:
                refusals.append(error)
        return refusals

    async def _connect(self, address: Address, login: Login | None) -> Connection:
        known = address if login is None else replace(address, user=login[0], password=login[1])
        return await connect(known, within=self._within)

    async def _login(self) -> Login | None:
        """Ask for user and password; None if the URLs have them."""
        if self._credentials is None:
            return None
        try:
            async with asyncio.timeout(self._within):
                found: Any = self._credentials()
                if isawaitable(found):
                    found = await found
        except TimeoutError as error:
            late = f"they did not come within {self._within:g} s"
            raise ConnectError(f"no credentials for RabbitMQ at {self}: {late}") from error
        except Exception as error:
            why = f"{type(error).__name__}: {one_line(error)}"
            raise ConnectError(f"no credentials for RabbitMQ at {self}: {why}") from error
        match found:
            case (str(user), str(password)):
                return user, password
        raise AddressError(
            f"credentials returned {type(found).__name__}. It has to return (user, password)."
        )
