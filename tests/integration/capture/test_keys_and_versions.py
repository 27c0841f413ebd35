"""An aggregate whose primary key changes, and one with a version counter."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import Engine, MetaData, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker
from sqlalchemy.orm.attributes import flag_modified
from sqlalchemy.orm.exc import StaleDataError

from postroom import AggregateRoot, DomainEvent, Outbox

pytestmark = pytest.mark.requirement("D3")


class Base(DeclarativeBase):
    metadata = MetaData()


outbox = Outbox(Base.metadata)


@dataclass(frozen=True, kw_only=True)
class Noted(DomainEvent):
    text: str


class Case(AggregateRoot, Base):
    __tablename__ = "cases"

    number: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str] = mapped_column(default="open")
    version: Mapped[int] = mapped_column()

    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012

    def note(self, text: str) -> None:
        self.raise_event(Noted(text=text))


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[sessionmaker[Session]]:
    engine: Engine = create_engine(f"sqlite:///{tmp_path / 'cases.db'}")
    Base.metadata.create_all(engine)
    sessions = sessionmaker(engine)
    outbox.capture(sessions)
    with sessions.begin() as session:
        session.add(Case(number=1))
    yield sessions
    engine.dispose()


def records(sessions: sessionmaker[Session]) -> list[tuple[str, str]]:
    """The texts of the events, with their keys."""
    with sessions() as session:
        found = session.scalars(select(outbox.record).order_by(outbox.tables.records.c.position))
        return [(each.payload["text"], each.aggregate_id or "") for each in found]


def test_events_have_the_key_that_the_row_had_when_they_were_captured(
    sessions: sessionmaker[Session],
) -> None:
    """So what leads to the new key is in order with all that was before it."""
    with sessions.begin() as session:
        case = session.get_one(Case, 1)
        case.note("before")
        case.number = 2
        case.note("renumbered")
        session.flush()
        case.note("after")
    assert records(sessions) == [("before", "1"), ("renumbered", "1"), ("after", "2")]


def test_the_key_of_a_change_that_is_rolled_back_is_the_old_one_again(
    sessions: sessionmaker[Session],
) -> None:
    with sessions.begin() as session:
        case = session.get_one(Case, 1)
        with session.begin_nested() as savepoint:
            case.number = 2
            session.flush()
            savepoint.rollback()
        case.note("after")
    assert records(sessions) == [("after", "1")]


def change_elsewhere(sessions: sessionmaker[Session]) -> None:
    with sessions.begin() as session:
        session.get_one(Case, 1).state = "closed"


def test_an_event_alone_is_saved_without_a_check_of_the_version(
    sessions: sessionmaker[Session],
) -> None:
    with sessions(expire_on_commit=False) as session:
        case = session.get_one(Case, 1)
        session.commit()
        change_elsewhere(sessions)
        case.note("still open?")
        session.commit()
        assert case.version == 1
    assert records(sessions) == [("still open?", "1")]


def test_an_event_with_a_column_that_is_marked_as_changed_has_the_check(
    sessions: sessionmaker[Session],
) -> None:
    with sessions(expire_on_commit=False) as session:
        case = session.get_one(Case, 1)
        session.commit()
        change_elsewhere(sessions)
        case.note("still open?")
        flag_modified(case, "state")
        with pytest.raises(StaleDataError):
            session.commit()
    assert records(sessions) == []
