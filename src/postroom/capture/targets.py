"""Which sessions an interceptor listens to, and their methods that would drop events."""

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker
from sqlalchemy.orm import InstanceState, Session, scoped_session, sessionmaker
from sqlalchemy.orm.attributes import instance_state

from postroom.capture.commit_order import untested_version
from postroom.capture.tracker import tracker_of
from postroom.errors import CaptureWarning, ConfigurationError
from postroom.events.aggregate import AggregateRoot
from postroom.events.delayed import undelayed
from postroom.events.event import Event
from postroom.record import OutboxRecord

CaptureTarget = (
    sessionmaker[Any]
    | async_sessionmaker[Any]
    | scoped_session[Any]
    | async_scoped_session[Any]
    | type[Session]
    | type[AsyncSession]
)
Uncaptured = Literal["warn", "error"]
INTERCEPTOR = "_postroom_interceptor"
"""The attribute of a class of sessions that holds its interceptor."""
RAISE = "Raise them on what it returns"
LATE = "they were raised after the commit. Raise them before it, or commit once more"
_INNER: Final = ("sqlalchemy.", "postroom.", "contextlib")
BEFORE = "took it out of the session before that"


class Interceptor(Protocol):
    """Captures the events of a session's aggregates."""

    @property
    def uncaptured(self) -> Uncaptured:
        """What happens when a session that is not captured leaves events behind."""

    def sweep(self, session: Session) -> None:
        """Capture what has been raised and not captured."""


class CapturingSession(Session):
    """A session that warns when a method leaves events behind."""

    _postroom_closing = False

    def merge(self, instance: Any, **options: Any) -> Any:
        """Merge as ever; the copies that are saved have the state of the instances, no events."""
        _warn_of_events(_merged([instance], self), "merge() saves a copy without them. " + RAISE)
        return super().merge(instance, **options)

    if TYPE_CHECKING or hasattr(Session, "merge_all"):  # SQLAlchemy 2.1

        def merge_all(self, instances: Iterable[Any], **options: Any) -> Any:
            """Merge several, with the same warning for each."""
            given = list(instances)
            reason = "merge_all() saves a copy without them. " + RAISE
            _warn_of_events(_merged(given, self), reason)
            return super().merge_all(given, **options)

    def bulk_save_objects(self, objects: Iterable[object], *options: Any, **more: Any) -> None:
        """Save rows as ever; the unit of work, and with it capture, does not see them."""
        given = list(objects)
        _warn_of_events(given, "bulk_save_objects() saves rows, not aggregates")
        super().bulk_save_objects(given, *options, **more)

    def expunge(self, instance: object) -> None:
        """Expunge as ever; what is not in a session is not saved."""
        _warn_of_events(_expunged(instance, self), "expunge() " + BEFORE)
        super().expunge(instance)

    def expunge_all(self) -> None:
        """Expunge as ever; what is not in a session is not saved."""
        if not self._postroom_closing:
            _warn_of_events(self, "expunge_all() " + BEFORE)
            _warn_of_records(self.new)
        super().expunge_all()

    def close(self) -> None:
        """Close as ever; a change that was not committed is not meant to be saved."""
        self._postroom_end(super().close)

    def reset(self) -> None:
        """Reset as ever."""
        self._postroom_end(super().reset)

    def invalidate(self) -> None:
        """Invalidate as ever."""
        self._postroom_end(super().invalidate)

    def _postroom_end(self, end: Callable[[], None]) -> None:
        tracker = tracker_of(self)
        if late := tracker.late(self):
            _warn_of_events(late, LATE)
        self._postroom_closing = True
        try:
            end()
        finally:
            self._postroom_closing = False
            tracker.closed()


def session_class(target: CaptureTarget) -> type[Session]:
    """Give the class of session to listen to; makers get one of their own.

    Listening to SQLAlchemy's own `Session` would hear every session of the process.
    """
    match target:
        case scoped_session() | async_scoped_session():
            return session_class(target.session_factory)
        case sessionmaker():
            target.class_ = _capturing(target.class_)
            return target.class_
        case async_sessionmaker():
            known = target.kw.get("sync_session_class") or target.class_.sync_session_class
            own = _capturing(known)
            target.configure(sync_session_class=own)
            return own
        case type() if issubclass(target, AsyncSession):
            target.sync_session_class = _capturing(target.sync_session_class)
            return target.sync_session_class
        case type() if issubclass(target, Session):
            return target
    raise ConfigurationError(
        f"cannot capture from {target!r}. Give a sessionmaker, an async_sessionmaker, or a class of"
        " sessions."
    )


def sweep_last(target: type[Session], interceptor: Interceptor) -> None:
    """Have sessions of a class sweep when they look whether there is something to flush.

    A flush does so first. A commit does so last, after all listeners, until nothing is left.
    """
    look: Callable[[Session], bool] | None = getattr(target, "_is_clean", None)
    if look is None:
        raise untested_version()

    def sweep_and_look(session: Session) -> bool:
        interceptor.sweep(session)
        return look(session)

    setattr(target, "_is_clean", sweep_and_look)  # noqa: B010 - a private name


def interceptors_of(target: type[Session]) -> Iterator[Interceptor]:
    """Give the interceptors that listen to sessions of a class, or to some of them."""
    if hasattr(target, INTERCEPTOR):
        yield getattr(target, INTERCEPTOR)
    for subclass in target.__subclasses__():
        yield from interceptors_of(subclass)


def names_of(events: Iterable[Event]) -> str:
    """Name the classes of events, for a warning."""
    return ", ".join(type(undelayed(event)).__name__ for event in events)


def stack_level() -> int:
    """Count the frames from a warning up to the caller's line, past those of libraries."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(_INNER):
        level, frame = level + 1, frame.f_back
    return level


def _capturing(known: type[Session]) -> type[Session]:
    if issubclass(known, CapturingSession):
        return known
    return type(known.__name__, (CapturingSession, known), {})


def _merged(instances: Iterable[object], session: Session) -> Iterator[object]:
    """Give what a merge copies, cascades included: not what the session has already."""
    for instance in instances:
        if instance not in session:
            yield instance
            yield from _cascaded("merge", instance, lambda state: state.session is session)


def _expunged(instance: object, session: Session) -> Iterator[object]:
    """Give what leaves the session with an instance."""
    if instance in session:
        yield instance
        yield from (each for each in _cascaded("expunge", instance) if each in session)


def _cascaded(
    name: str, instance: object, halt_on: Callable[[InstanceState[Any]], bool] | None = None
) -> Iterator[object]:
    state = instance_state(instance)
    return (each[0] for each in state.mapper.cascade_iterator(name, state, halt_on))


def _warn_of_records(instances: Iterable[object]) -> None:
    for instance in instances:
        if isinstance(instance, OutboxRecord):
            warnings.warn(
                f"the record of {instance.event_type} {instance.id} will not be saved:"
                f" expunge_all() {BEFORE}.",
                CaptureWarning,
                stacklevel=stack_level(),
            )


def _warn_of_events(instances: Iterable[object], reason: str) -> None:
    for instance in instances:
        if isinstance(instance, AggregateRoot) and instance.domain_events:
            name, events = type(instance).__name__, names_of(instance.domain_events)
            warnings.warn(
                f"{name} has events that will not be captured ({events}): {reason}.",
                CaptureWarning,
                stacklevel=stack_level(),
            )
