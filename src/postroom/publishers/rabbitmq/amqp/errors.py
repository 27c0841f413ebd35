"""All errors of the client.

AmqpError
├── AddressError      a broker's URL cannot be used
├── ConnectError      the broker cannot be reached, or refuses the connection
├── ClosedError       a channel or the connection is closed
├── BlockedError      the broker has blocked publishers
└── EncodeError       AMQP cannot hold a value
"""

from enum import IntEnum


class ReplyCode(IntEnum):
    """The codes by which a broker says why it closes a channel or a connection."""

    CONNECTION_FORCED = 320
    """The broker stops, or an administrator closes the connection."""
    ACCESS_REFUSED = 403
    NOT_FOUND = 404
    PRECONDITION_FAILED = 406
    COMMAND_INVALID = 503
    NOT_ALLOWED = 530
    NOT_IMPLEMENTED = 540


class AmqpError(Exception):
    """Base of every error that the client raises."""


class AddressError(AmqpError):
    """Raised when a broker's URL cannot be used. Its text has no password."""


class ConnectError(AmqpError):
    """Raised when a broker cannot be reached or refuses the connection, with what to check."""


class ClosedError(AmqpError):
    """Raised when the broker has closed a channel or the connection, with its code and reason."""

    def __init__(self, code: int, reason: str, *, connection: bool = False) -> None:
        self.code = code
        self.reason = reason
        self.connection = connection
        super().__init__(reason)


class BlockedError(AmqpError):
    """Raised when the broker has blocked publishers: it is low on memory or disk space."""


class EncodeError(AmqpError):
    """Raised when AMQP cannot hold a value: a name of more than 255 bytes, for example."""


def one_line(error: BaseException) -> str:
    """Return the first line of an error's text, or its repr if it has no text."""
    return (str(error).strip() or repr(error)).splitlines()[0]
