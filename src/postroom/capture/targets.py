"""Which sessions an interceptor listens to, and their methods that drop events."""

import warnings
from collections.abc import Iterable
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from postroom.errors import CaptureWarning, ConfigurationError
from postroom.events.aggregate import AggregateRoot
from postroom.events.delayed import undelayed

CaptureTarget = (
    sessionmaker[Any]
    | async_sessionmaker[Any]
    | scoped_session[Any]
    | async_scoped_session[Any]
    | type[Session]
    | type[AsyncSession]
)


class DroppingMethodsWarn(Session):
    """A session that warns when a method of its own leaves events behind."""

    def merge(self, instance: Any, **options: Any) -> Any:
        """Merge as ever; the copy that is saved has the state of the instance, not its events."""
        _warn_of_events(
            instance, "merge() saves a copy without them. Raise them on what it returns"
        )
        return super().merge(instance, **options)

    def merge_all(self, instances: Iterable[Any], **options: Any) -> Any:
        """Merge several, with the same warning for each."""
        given = list(instances)
        for instance in given:
            _warn_of_events(instance, "merge_all() saves a copy without them")
        return super().merge_all(given, **options)

    def bulk_save_objects(self, objects: Iterable[object], *options: Any, **more: Any) -> None:
        """Save rows as ever; the unit of work, and with it capture, does not see them."""
        given = list(objects)
        for instance in given:
            _warn_of_events(instance, "bulk_save_objects() saves rows, not aggregates")
        super().bulk_save_objects(given, *options, **more)

    def expunge(self, instance: object) -> None:
        """Expunge as ever; what is not in a session is not saved."""
        _warn_of_events(instance, "expunge() took it out of the session before they were saved")
        super().expunge(instance)


def session_class(target: CaptureTarget) -> type[Session]:
    """Give the class of session to listen to; makers get one of their own.

    Listening to SQLAlchemy's own `Session` would hear every session of the process.
    """
    match target:
        case scoped_session() | async_scoped_session():
            return session_class(target.session_factory)
        case sessionmaker():
            target.class_ = _warning(target.class_)
            return target.class_
        case async_sessionmaker():
            known = target.kw.get("sync_session_class") or target.class_.sync_session_class
            own = _warning(known)
            target.configure(sync_session_class=own)
            return own
        case type() if issubclass(target, AsyncSession):
            target.sync_session_class = _warning(target.sync_session_class)
            return target.sync_session_class
        case type() if issubclass(target, Session):
            return target
    raise ConfigurationError(
        f"cannot capture from {target!r}. Give a sessionmaker, an async_sessionmaker, or a class of"
        " sessions."
    )


def _warning(known: type[Session]) -> type[Session]:
    if issubclass(known, DroppingMethodsWarn):
        return known
    return type(known.__name__, (DroppingMethodsWarn, known), {})


def _warn_of_events(instance: object, reason: str) -> None:
    if isinstance(instance, AggregateRoot) and instance.domain_events:
        names = ", ".join(type(undelayed(event)).__name__ for event in instance.domain_events)
        warnings.warn(
            f"{type(instance).__name__} has events that will not be captured ({names}): {reason}.",
            CaptureWarning,
            stacklevel=3,
        )
