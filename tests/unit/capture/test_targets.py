"""Which class of session an interceptor listens to."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
)
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    scoped_session,
    sessionmaker,
)

from postroom import AggregateRoot, CaptureWarning, ConfigurationError, DomainEvent
from postroom.capture.targets import CapturingSession, session_class


class Base(DeclarativeBase):
    pass


class Thing(AggregateRoot, Base):
    __tablename__ = "things"

    id: Mapped[int] = mapped_column(primary_key=True)


@dataclass(frozen=True, kw_only=True)
class ThingSeen(DomainEvent):
    pass


class OwnSession(Session):
    pass


class OwnAsyncSession(AsyncSession):
    sync_session_class = OwnSession


def thing() -> Thing:
    thing = Thing(id=1)
    thing.raise_event(ThingSeen())
    return thing


MAKERS: list[Callable[[], Any]] = [
    sessionmaker,
    async_sessionmaker,
    lambda: scoped_session(sessionmaker()),
    lambda: async_scoped_session(async_sessionmaker(), scopefunc=lambda: 1),
]


def sync(session: Any) -> Any:
    return getattr(session, "sync_session", session)


@pytest.mark.parametrize("make", MAKERS)
def test_a_maker_gets_a_class_of_its_own(make: Callable[[], Any]) -> None:
    maker, other = make(), make()
    target = session_class(maker)
    assert issubclass(target, CapturingSession)
    assert isinstance(sync(maker()), target)
    assert not isinstance(sync(other()), target)


def test_a_maker_keeps_the_class_that_the_application_gave_it() -> None:
    maker = sessionmaker(class_=OwnSession, expire_on_commit=False)
    target = session_class(maker)
    session = maker()
    assert isinstance(session, target)
    assert isinstance(session, OwnSession)
    assert not session.expire_on_commit


def test_an_async_maker_keeps_the_class_that_the_application_gave_it() -> None:
    by_class = async_sessionmaker(class_=OwnAsyncSession)
    by_keyword = async_sessionmaker(sync_session_class=OwnSession)
    for maker in (by_class, by_keyword):
        target = session_class(maker)
        assert issubclass(target, OwnSession)
        assert isinstance(maker().sync_session, target)
    assert OwnAsyncSession.sync_session_class is OwnSession


def test_a_class_of_sessions_is_listened_to_itself() -> None:
    assert session_class(OwnSession) is OwnSession


def test_a_class_of_async_sessions_gets_a_sync_class_of_its_own() -> None:
    class Mine(AsyncSession):
        pass

    target = session_class(Mine)
    assert isinstance(Mine().sync_session, target)
    assert not isinstance(AsyncSession().sync_session, target)


def test_asking_twice_gives_the_same_class() -> None:
    maker, async_maker = sessionmaker(), async_sessionmaker()
    assert session_class(maker) is session_class(maker)
    assert session_class(async_maker) is session_class(async_maker)


@pytest.mark.parametrize("wrong", [Session(), AsyncSession(), None, "sessions", Thing])
def test_anything_else_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot capture from .*sessionmaker"):
        session_class(wrong)


def test_expunge_warns_of_what_it_leaves_behind() -> None:
    maker = sessionmaker()
    session_class(maker)
    session = maker()
    seen = thing()
    session.add(seen)
    with pytest.warns(CaptureWarning, match=r"Thing has events .*\(ThingSeen\).*expunge") as caught:
        session.expunge(seen)
    assert caught[0].filename == __file__  # the caller's line, not ours
    quiet = thing()
    quiet.clear_events()
    session.add(quiet)
    session.expunge(quiet)  # a warning would be an error
    assert quiet not in session
