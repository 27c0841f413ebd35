"""All errors and warnings, in one tree.

PostroomError
├── ConfigurationError         the outbox is set up in a way that cannot work
├── EventDefinitionError       a class cannot be an event
├── CaptureError               an event cannot be saved                       (ValueError)
├── UnknownEventTypeError      no class has a record's event type             (ValueError)
├── PayloadError               a payload does not fit its class               (ValueError)
├── SchemaError                the tables are not those that are needed
├── InboxError                 an inbox cannot store an id or a consumer      (ValueError)
├── RecordNotFoundError        no record has that id, or several have         (LookupError)
├── ActionError                an action cannot be applied to the records     (ValueError)
├── InspectionTimeoutError     the database did not answer in time            (TimeoutError)
├── UndeliverableError         a record can never be delivered
└── OutageError                no record can be delivered at the moment
    └── ConnectionLostError    the connection broke during a delivery

CaptureWarning                 events that are not captured, or lack a key    (UserWarning)
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from postroom.redaction import mask


class PostroomError(Exception):
    """Base of every error that postroom raises."""


class ConfigurationError(PostroomError):
    """Raised when the outbox, a relay or a publisher is set up in a way that cannot work."""


class EventDefinitionError(PostroomError):
    """Raised when a class cannot be an event: JSON cannot hold a field, or two have one name."""


class CaptureError(PostroomError, ValueError):
    """Raised when an event cannot be saved. Nothing has been added to the transaction."""


class UnknownEventTypeError(PostroomError, ValueError):
    """Raised when no class is registered for an event type.

    `event_type` is that type; `known` are the types that are registered.
    """

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
    """Raised when a stored payload does not fit its event class."""


class SchemaError(PostroomError):
    """Raised when the tables in the database are not the ones that this version needs.

    `drift` has a sentence for each difference, with the remedy.
    """

    def __init__(self, drift: Iterable[str]) -> None:
        self.drift = tuple(drift)
        super().__init__(self.drift)

    def __str__(self) -> str:
        return "\n".join(self.drift)


class InboxError(PostroomError, ValueError):
    """Raised when an inbox cannot store a message id or a consumer: empty, too long, or no text."""


class RecordNotFoundError(PostroomError, LookupError):
    """Raised when no record has an id or a position, or several ids begin with the given text."""


class ActionError(PostroomError, ValueError):
    """Raised when an operator's action cannot be applied to the chosen records.

    `state` is the state of a record that the action cannot change, if that is the reason.
    """

    def __init__(self, text: str, *, state: str | None = None) -> None:
        self.state = state
        super().__init__(text)


class InspectionTimeoutError(PostroomError, TimeoutError):
    """Raised when the database does not answer an `Inspector` within its time limit."""

    def __init__(self, question: str, seconds: float) -> None:
        self.question, self.seconds = question, seconds
        super().__init__(question, seconds)

    def __str__(self) -> str:
        return (
            f"the database did not answer within {self.seconds:g} s ({self.question}). It may be"
            " overloaded; try again, or ask for less."
        )


class UndeliverableError(PostroomError):
    """Raised when a record can never be delivered, so that a retry is pointless.

    Handlers raise it. The record fails at once.
    """


class OutageError(PostroomError):
    """Raised when no record can be delivered at the moment.

    Publishers raise it when the broker is unavailable, handlers when a service that they need is.
    The relay pauses, counts no attempt, and resumes by itself.
    """


class ConnectionLostError(OutageError):
    """Raised when the connection broke during a delivery, so that a record may be the cause."""


class CaptureWarning(UserWarning):
    """Warns of events that are not captured, or without the key that they have elsewhere."""


MAX_TEXT = 2000
DRIVERS = ("asyncpg", "psycopg", "aiosqlite", "sqlite3")
MAX_CHAIN = 50
"""Errors of a chain (causes, and errors raised while another was handled) that are logged."""


def error_text(error: BaseException, secrets: Collection[str] = ()) -> str:
    """Return the first line of an error's text, for a log or a row, without passwords and secrets.

    Of a database error that is neither the statement nor the values in it.
    """
    original = getattr(error, "orig", None)  # of a database error, whose own text has them all
    cause = original if isinstance(original, BaseException) else error
    text = mask(_text(cause).strip() or repr(cause), secrets).splitlines()[0]
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def traceable(error: BaseException, secrets: Collection[str] = ()) -> BaseException:
    """Return the error to log with its traceback: itself, or a copy that shows nothing secret.

    A copy has the same name, traceback and chain. Its texts are without passwords and `secrets`;
    those of a database end after their first line, because the row follows.
    """
    chain = list(_chain(error))
    if all(_shown(each, secrets) == _texts(each) for each in chain):
        return error
    return _copied(error, secrets, {})


def _text(error: BaseException) -> str:
    try:
        return error.message if isinstance(error, BaseExceptionGroup) else str(error)
    except Exception:  # of the error's own __str__
        return type(error).__name__


def _texts(error: BaseException) -> list[str]:
    """Return an error's text, and the notes that were added to it."""
    return [_text(error), *map(str, getattr(error, "__notes__", ()))]


def _shown(error: BaseException, secrets: Collection[str]) -> list[str]:
    """Return the same as far as a log may show it."""
    if hasattr(error, "orig") or type(error).__module__.startswith(("sqlalchemy", *DRIVERS)):
        return [error_text(error, secrets)]
    return [mask(each, secrets) for each in _texts(error)]


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its causes, and the errors of a group."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting and len(seen) < MAX_CHAIN:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += [each.__cause__, each.__context__, *_members(each)]


def _members(error: BaseException) -> Sequence[BaseException]:
    return error.exceptions if isinstance(error, BaseExceptionGroup) else ()


def _copied(
    error: BaseException, secrets: Collection[str], copies: dict[int, BaseException | None]
) -> BaseException:
    """Copy an error and its chain, with texts that a log may show."""

    def copied(other: BaseException | None) -> BaseException | None:
        if other is None or id(other) in copies or len(copies) >= MAX_CHAIN:
            return None if other is None else copies.get(id(other))
        return _copied(other, secrets, copies)

    copies[id(error)] = None  # where a chain comes back to it, the copy ends
    text, *notes = _shown(error, secrets)
    names = {"__module__": type(error).__module__, "__qualname__": type(error).__qualname__}
    members = [each for each in map(copied, _members(error)) if isinstance(each, Exception)]
    if members:
        copy: Exception = type(type(error).__name__, (ExceptionGroup,), names)(text, members)
    else:
        copy = type(type(error).__name__, (Exception,), names)(text)
    copies[id(error)] = copy.with_traceback(error.__traceback__)
    copy.__cause__, copy.__context__ = copied(error.__cause__), copied(error.__context__)
    copy.__suppress_context__ = error.__suppress_context__
    for note in notes:
        copy.add_note(note)
    return copy
