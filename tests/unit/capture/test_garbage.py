"""A session that captured events is freed as soon as nobody holds it, without the collector."""

import gc
import weakref
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import MetaData, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from postroom import AggregateRoot, Outbox, UntypedEvent


class Base(DeclarativeBase):
    metadata = MetaData()


class Thing(AggregateRoot, Base):
    __tablename__ = "things"

    id: Mapped[int] = mapped_column(primary_key=True)


outbox = Outbox(Base.metadata)


def happened() -> UntypedEvent:
    return UntypedEvent(event_type="thing.happened", payload={})


def dispatch(session: Session) -> None:
    outbox.dispatcher(session).dispatch_sync([happened()])


def raise_event(session: Session) -> None:
    thing = Thing()
    thing.raise_event(happened())
    session.add(thing)


@pytest.fixture
def sessions() -> Iterator[sessionmaker[Session]]:
    engine = create_engine("sqlite://")
    Base.metadata.create_all(engine)
    sessions = sessionmaker(engine)
    outbox.capture(sessions)
    yield sessions
    engine.dispose()


@pytest.mark.parametrize("capture", [dispatch, raise_event])
@pytest.mark.parametrize("nested", [False, True])
def test_no_cycle_keeps_a_session(
    sessions: sessionmaker[Session], capture: Callable[[Session], None], nested: bool
) -> None:
    def use() -> weakref.ref[Session]:
        with sessions() as session:
            if nested:
                with session.begin_nested():
                    capture(session)
            else:
                capture(session)
            session.commit()
            return weakref.ref(session)

    use()  # the first fills caches
    gc.disable()
    try:
        assert use()() is None
    finally:
        gc.enable()
