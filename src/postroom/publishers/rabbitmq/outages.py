"""What the AMQP client raises, as postroom's own errors."""

from collections.abc import Iterator
from contextlib import contextmanager

from postroom.errors import ConfigurationError, ConnectionLostError, OutageError
from postroom.publishers.rabbitmq.amqp.address import Address
from postroom.publishers.rabbitmq.amqp.errors import (
    AddressError,
    AmqpError,
    ClosedError,
    ReplyCode,
)


def address_of(url: str) -> Address:
    """Read the URL of a broker. Raises ConfigurationError, without the password."""
    try:
        return Address.parse(url)
    except AddressError as error:
        raise ConfigurationError(str(error)) from None


@contextmanager
def client_errors(address: Address) -> Iterator[None]:
    """Raise errors of the client as ConfigurationError, OutageError or ConnectionLostError."""
    try:
        yield
    except AddressError as error:
        raise ConfigurationError(str(error)) from error
    except ClosedError as error:
        raise connection_lost(address, error) from error
    except AmqpError as error:
        raise OutageError(str(error)) from error


def loss(address: Address, error: ClosedError) -> str:
    """Say that the connection was lost, and why."""
    return f"the connection to RabbitMQ at {address} was lost: {error.reason}"


def connection_lost(address: Address, error: ClosedError) -> OutageError:
    """Return the error for a lost connection.

    A record may be the cause, unless the broker stops or an administrator closed the connection.
    """
    kind = OutageError if error.code == ReplyCode.CONNECTION_FORCED else ConnectionLostError
    return kind(loss(address, error))
