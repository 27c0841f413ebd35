"""Opens a connection to one host, or says why not."""

import asyncio
from typing import Any, Final

from postroom.publishers.rabbitmq.amqp.address import Address
from postroom.publishers.rabbitmq.amqp.connection import Connection
from postroom.publishers.rabbitmq.amqp.errors import (
    ClosedError,
    ConnectError,
    ReplyCode,
    one_line,
)
from postroom.publishers.rabbitmq.amqp.tls import tls_context

NEXT_ADDRESS: Final = 0.25
"""Seconds after which the next IP address of a host name is tried as well."""


async def connect(address: Address, *, within: float) -> Connection:
    """Connect to a host and log in, in so many seconds.

    Raises ConnectError, which says what to check, and AddressError.
    """
    connection = Connection(address)
    try:
        async with asyncio.timeout(within):
            await _reach(connection)
            await connection.log_in()
    except BaseException as error:
        connection.abort()
        if (failure := _failure(address, error, within)) is None:
            raise
        raise failure from error
    return connection


async def _reach(connection: Connection) -> None:
    address, loop = connection.address, asyncio.get_running_loop()
    context = tls_context(address.options) if address.tls else None
    # For a name that has several IP addresses; uvloop tries them one after the other.
    is_asyncio = isinstance(loop, asyncio.BaseEventLoop)
    several: dict[str, Any] = {"happy_eyeballs_delay": NEXT_ADDRESS} if is_asyncio else {}
    await loop.create_connection(
        lambda: connection, address.host, address.port, ssl=context, **several
    )


def _failure(address: Address, error: BaseException, within: float) -> ConnectError | None:
    """Say why a connection could not be opened; None for an error of another kind."""
    match error:
        case TimeoutError():
            text = f"RabbitMQ at {address} did not answer within {within:g} s"
        case OSError() | UnicodeError():  # the latter for a host that cannot be a name
            text = f"cannot reach RabbitMQ at {address}: {one_line(error)}"
        case ClosedError():
            text = _refusal(address, error)
        case _:
            return None
    return ConnectError(text)


def _refusal(address: Address, error: ClosedError) -> str:
    """Say why a broker refused a connection, and what to check."""
    if error.code == ReplyCode.ACCESS_REFUSED and address.external:
        return (
            f"RabbitMQ refused the login by certificate {address.options['certfile']} at {address}."
            " Check that the certificate's name is a user of the broker (ssl_cert_login_from)."
        )
    if error.code == ReplyCode.ACCESS_REFUSED:
        return (
            f"RabbitMQ refused the login of `{address.user}` at {address}."
            " Check the user, the password and the vhost."
        )
    if error.code == ReplyCode.NOT_ALLOWED:
        user = address.options["certfile"] if address.external else address.user
        return (
            f"RabbitMQ refused `{user}` the vhost `{address.vhost}` at {address}:"
            f" {error.reason}. Check that it exists, and that the user may use it."
        )
    said = f"cannot use RabbitMQ at {address}: {error.reason or 'the broker gave no reason'}"
    if address.tls and not error.code:
        # It often resets the connection before the alert that says so can be read.
        said += ". Check that the broker trusts the client certificate, if it asks for one"
    return said
