"""Everything postroom raises or warns of, in one tree.

PostroomError
├── ConfigurationError         the outbox is not set up, or set up twice
├── EventDefinitionError       a class cannot be an event
├── CaptureError               an event cannot be saved            (ValueError)
├── UnknownEventTypeError      no class has a record's event type  (ValueError)
├── PayloadError               a record does not fit its class     (ValueError)
├── SchemaError                the tables are not as they should be
├── InboxError                 an inbox cannot keep what it is told (ValueError)
├── UndeliverableError         a record can never be delivered
└── OutageError                no record can be delivered at the moment
    └── ConnectionLostError    the connection broke during a delivery

CaptureWarning                 events that will not be captured    (UserWarning)
"""

from collections.abc import Iterable


class PostroomError(Exception):
    """Base of every error that postroom raises."""


class ConfigurationError(PostroomError):
    """Raised when the outbox is used before it is set up, or set up in a way that cannot work."""


class EventDefinitionError(PostroomError):
    """Raised when a class cannot be an event: a field that JSON cannot hold, a name taken twice."""


class CaptureError(PostroomError, ValueError):
    """Raised when an event cannot be saved as it is, or there. Nothing has been saved."""


class UnknownEventTypeError(PostroomError, ValueError):
    """Raised when no class is registered for an event type."""

    def __init__(self, event_type: str, known: Iterable[str]) -> None:
        self.event_type = event_type
        self.known = tuple(sorted(known))
        super().__init__(event_type, self.known)

    def __str__(self) -> str:
        return (
            f"no event class is registered as {self.event_type!r}. Import the module of its"
            f" handler, or name the class so. Known: {', '.join(self.known) or 'none'}."
        )


class PayloadError(PostroomError, ValueError):
    """Raised when a stored payload does not fit the event class it belongs to."""


class SchemaError(PostroomError):
    """Raised when the outbox tables in the database are not the ones this version needs."""

    def __init__(self, drift: Iterable[str]) -> None:
        self.drift = tuple(drift)
        super().__init__(self.drift)

    def __str__(self) -> str:
        return "\n".join(self.drift)


class InboxError(PostroomError, ValueError):
    """Raised when an inbox is told what it cannot keep: an id without a character, or too many."""


class UndeliverableError(PostroomError):
    """Raised when a record can never be delivered, so that trying again is pointless.

    A handler may raise it too: the record fails at once, whatever its schedule says.
    """


class OutageError(PostroomError):
    """Raised when no record can be delivered: the broker is away, or what a handler needs.

    The relay pauses, counts no attempt, and resumes by itself.
    """


class ConnectionLostError(OutageError):
    """Raised when the connection broke during a delivery: a record may be the cause."""


class CaptureWarning(UserWarning):
    """Warns of domain events that postroom sees but cannot capture."""


MAX_TEXT = 2000


def error_text(error: BaseException) -> str:
    """Say what an error says, for a log or a row: not a statement, nor the values in it."""
    original = getattr(error, "orig", None)  # of a database error, whose own text has them all
    cause = original if isinstance(original, BaseException) else error
    text = (str(cause).strip() or repr(cause)).splitlines()[0]
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def traceable(error: BaseException) -> BaseException | None:
    """Give the error to log with its traceback; None for a database's, which shows a row's values.

    (PostgreSQL's text of a violated constraint ends with the row.)
    """
    return None if hasattr(error, "orig") or hasattr(error.__cause__, "orig") else error
