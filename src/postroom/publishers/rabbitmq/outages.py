"""Turns errors of the client into postroom's errors."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from postroom.errors import ConfigurationError, ConnectionLostError, OutageError
from postroom.publishers.rabbitmq.amqp.cluster import CONNECT_WITHIN, Cluster, Credentials
from postroom.publishers.rabbitmq.amqp.errors import (
    AddressError,
    AmqpError,
    ClosedError,
    ReplyCode,
)


def cluster_of(
    urls: str | Sequence[str],
    within: timedelta = CONNECT_WITHIN,
    credentials: Credentials | None = None,
) -> Cluster:
    """Read the URL or URLs of a broker. Raises ConfigurationError, without a password."""
    if within <= timedelta():
        raise ConfigurationError("connect_within must be greater than zero.")
    try:
        return Cluster(urls, within=within, credentials=credentials)
    except AddressError as error:
        raise ConfigurationError(str(error)) from None


@contextmanager
def client_errors(where: object) -> Iterator[None]:
    """Raise errors of the client as ConfigurationError, OutageError or ConnectionLostError.

    `where` is, as text, the host or the hosts.
    """
    try:
        yield
    except AddressError as error:
        raise ConfigurationError(str(error)) from error
    except ClosedError as error:
        raise connection_lost(where, error) from error
    except AmqpError as error:
        raise OutageError(str(error)) from error


def loss(where: object, error: ClosedError) -> str:
    """Say that the connection was lost, and why."""
    return f"the connection to RabbitMQ at {where} was lost: {error.reason}"


def missing_exchange(exchange: str, where: object) -> str:
    """Say that an exchange does not exist, and what to do."""
    return (
        f"exchange `{exchange}` does not exist on RabbitMQ at {where}. Declare it in the topology"
        " (`postroom topology --apply`), or create it there."
    )


def connection_lost(where: object, error: ClosedError) -> OutageError:
    """Return the error for a lost connection.

    A record may be the cause, unless the broker stops or an administrator closed the connection.
    """
    kind = OutageError if error.code == ReplyCode.CONNECTION_FORCED else ConnectionLostError
    return kind(loss(where, error))
