"""The error for a channel or a connection that is closed, and what its codes mean."""

from postroom.errors import ConnectionLostError, Outage
from postroom.publishers.rabbitmq.address import Address

LOGIN_REFUSED, VHOST_REFUSED = 403, 530
FORCED = 320
"""The code when the broker stops, or an administrator closes the connection."""


class ClosedError(Exception):
    """Raised when the broker has closed a channel or the connection, with its code and reason."""

    def __init__(self, code: int, reason: str, *, connection: bool = False) -> None:
        self.code = code
        self.reason = reason
        self.connection = connection
        super().__init__(reason)


def refusal(address: Address, error: ClosedError) -> str:
    """Say why a broker refused a connection, and what to check."""
    if error.code == LOGIN_REFUSED:
        return (
            f"RabbitMQ refused the login of `{address.user}` at {address}."
            " Check the user, the password and the vhost."
        )
    if error.code == VHOST_REFUSED:
        return (
            f"RabbitMQ refused `{address.user}` the vhost `{address.vhost}` at {address}:"
            f" {error.reason}. Check that it exists, and that the user may use it."
        )
    return f"cannot use RabbitMQ at {address}: {error.reason or 'the broker gave no reason'}"


def loss(address: Address, error: ClosedError) -> str:
    """Say that the connection was lost, and why."""
    return f"the connection to RabbitMQ at {address} was lost: {error.reason}"


def connection_lost(address: Address, error: ClosedError) -> Outage:
    """Return the error for a lost connection: a record may be the cause, unless it was FORCED."""
    kind = Outage if error.code == FORCED else ConnectionLostError
    return kind(loss(address, error))
