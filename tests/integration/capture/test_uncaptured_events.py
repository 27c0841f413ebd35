"""Methods of a session that leave events behind, cascades included: they warn."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import ForeignKey, MetaData, create_engine, select
from sqlalchemy.event import listen
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    relationship,
    sessionmaker,
)
from sqlalchemy.orm.exc import UnmappedInstanceError

from postroom import AggregateRoot, CaptureWarning, DomainEvent, Outbox, OutboxRecord

pytestmark = pytest.mark.requirement("D3")


class Base(DeclarativeBase):
    metadata = MetaData()


class LeftBehindRecord(OutboxRecord):
    pass


outbox = Outbox(Base.metadata, record=LeftBehindRecord)


@dataclass(frozen=True, kw_only=True)
class LineAdded(DomainEvent, key="number", aggregate="line"):
    number: int


@dataclass(frozen=True, kw_only=True)
class BasketFilled(DomainEvent, aggregate="basket"):
    pass


class Basket(AggregateRoot, Base):
    __tablename__ = "baskets"

    id: Mapped[int] = mapped_column(primary_key=True)
    lines: Mapped[list["Line"]] = relationship(cascade="all")


class Line(AggregateRoot, Base):
    __tablename__ = "lines"

    id: Mapped[int] = mapped_column(primary_key=True)
    basket_id: Mapped[int] = mapped_column(ForeignKey("baskets.id"))
    tags: Mapped[list["Tag"]] = relationship(cascade="save-update", back_populates="line")


class Tag(AggregateRoot, Base):
    """Saved with its line, but neither merged nor expunged with it."""

    __tablename__ = "tags"

    id: Mapped[int] = mapped_column(primary_key=True)
    line_id: Mapped[int] = mapped_column(ForeignKey("lines.id"))
    line: Mapped[Line] = relationship(back_populates="tags", cascade="")


def line(number: int = 1) -> Line:
    made = Line(id=number, basket_id=1)
    made.raise_event(LineAdded(number=number))
    return made


@pytest.fixture
def session() -> Iterator[Session]:
    engine = create_engine("sqlite://")
    Base.metadata.create_all(engine)
    sessions = sessionmaker(engine)
    outbox.capture(sessions)
    with sessions() as session:
        yield session
    engine.dispose()


@pytest.fixture
def _silent() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def types(session: Session) -> list[str]:
    return [record.event_type for record in session.scalars(select(LeftBehindRecord))]


def test_merge_warns_of_the_events_of_what_it_cascades_to(session: Session) -> None:
    basket = Basket(id=1, lines=[line(1), line(2)])
    with pytest.warns(CaptureWarning) as caught:
        session.merge(basket)
    texts = [str(one.message) for one in caught]
    assert len(texts) == 2
    assert all("Line has events" in text and "merge() saves a copy" in text for text in texts)
    assert {one.filename for one in caught} == {__file__}
    session.commit()
    assert types(session) == []


def test_merge_all_warns_of_the_events_of_what_it_cascades_to(session: Session) -> None:
    if not hasattr(Session, "merge_all"):
        assert not hasattr(session, "merge_all")
        return
    with pytest.warns(CaptureWarning, match=r"LineAdded.*merge_all"):
        session.merge_all([Basket(id=1, lines=[line()])])


@pytest.mark.usefixtures("_silent")
def test_merging_what_is_in_the_session_already_is_silent(session: Session) -> None:
    basket = Basket(id=1)
    session.add(basket)
    session.flush()
    basket.raise_event(BasketFilled())
    basket.lines.append(line())
    assert session.merge(basket) is basket
    if hasattr(session, "merge_all"):
        session.merge_all([basket])
    session.commit()
    assert sorted(types(session)) == ["BasketFilled", "LineAdded"]


@pytest.mark.usefixtures("_silent")
def test_merging_what_cascades_to_an_instance_in_the_session_is_silent(session: Session) -> None:
    session.add(Basket(id=1))
    mine = line()
    session.add(mine)
    session.flush()
    mine.raise_event(LineAdded(number=2))
    detached = Basket(id=1)
    with session.no_autoflush:
        detached.lines.append(mine)
        session.merge(detached)
    session.commit()
    assert types(session) == ["LineAdded", "LineAdded"]


def test_expunge_warns_of_the_events_of_what_it_cascades_to(session: Session) -> None:
    basket = Basket(id=1, lines=[line()])
    session.add(basket)
    with pytest.warns(CaptureWarning, match=r"LineAdded.*expunge\(\)") as caught:
        session.expunge(basket)
    assert len(caught) == 1
    session.commit()
    assert types(session) == []


@pytest.mark.usefixtures("_silent")
def test_a_relationship_without_the_cascade_is_silent(session: Session) -> None:
    tag = Tag(id=1)
    tag.raise_event(LineAdded(number=1))
    session.add(Line(id=1, basket_id=1, tags=[tag]))
    session.expunge(tag.line)
    assert tag in session
    tag.clear_events()


def test_expunge_all_warns_of_the_events_that_it_leaves_behind(session: Session) -> None:
    session.add(Basket(id=1, lines=[line(1), line(2)]))
    with pytest.warns(CaptureWarning, match=r"LineAdded.*expunge_all\(\)") as caught:
        session.expunge_all()
    assert len(caught) == 2
    assert caught[0].filename == __file__


def test_expunge_all_warns_of_records_that_are_not_inserted_yet(session: Session) -> None:
    basket = Basket()  # its id is the database's making: the record is made after the flush
    basket.raise_event(BasketFilled())
    session.add(basket)
    session.flush()
    assert basket.domain_events == ()
    with pytest.warns(CaptureWarning, match=r"record of BasketFilled .*expunge_all\(\)"):
        session.expunge_all()
    session.commit()
    assert types(session) == []


@pytest.mark.usefixtures("_silent")
@pytest.mark.parametrize("end", ["close", "reset", "invalidate"])
def test_the_end_of_a_session_is_silent(session: Session, end: str) -> None:
    """What was not committed was not meant to be saved."""
    session.add(line())
    getattr(session, end)()
    assert not list(session)


@pytest.mark.parametrize("end", ["close", "reset", "invalidate"])
def test_the_end_of_a_session_warns_of_events_raised_after_its_commit(
    session: Session, end: str
) -> None:
    basket = Basket(id=1)
    session.add(basket)
    session.commit()
    basket.raise_event(BasketFilled())
    with pytest.warns(CaptureWarning, match=r"BasketFilled.*after the commit") as caught:
        getattr(session, end)()
    assert caught[0].filename == __file__
    assert len(basket.domain_events) == 1


def test_so_does_the_end_of_a_block_for_events_of_a_listener_after_the_commit(
    session: Session,
) -> None:
    basket = Basket(id=1)
    session.add(basket)
    listen(session, "after_commit", lambda _: basket.raise_event(BasketFilled()), once=True)

    def commit_in_a_block() -> None:
        with session:
            session.commit()

    with pytest.warns(CaptureWarning, match=r"BasketFilled.*commit once more"):
        commit_in_a_block()


async def test_so_does_the_end_of_an_async_session(tmp_path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'baskets.db'}")
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    sessions = async_sessionmaker(engine, expire_on_commit=False)
    outbox.capture(sessions)
    async with sessions() as session:
        basket = Basket(id=1)
        session.add(basket)
        await session.commit()
        basket.raise_event(BasketFilled())
        with pytest.warns(CaptureWarning, match=r"BasketFilled.*after the commit"):
            await session.close()
    await engine.dispose()


@pytest.mark.usefixtures("_silent")
def test_the_remedy_for_that_works(session: Session) -> None:
    basket = Basket(id=1)
    session.add(basket)
    session.commit()
    basket.raise_event(BasketFilled())
    session.commit()
    session.close()
    assert types(session) == ["BasketFilled"]
    session.close()


@pytest.mark.usefixtures("_silent")
def test_what_is_changed_after_a_commit_and_then_given_up_is_silent(session: Session) -> None:
    """The change is not saved either. So is what is rolled back."""
    session.add_all([mine := line(1), basket := Basket(id=1)])
    session.commit()
    mine.basket_id = 2
    mine.raise_event(LineAdded(number=1))
    session.close()
    session.add(basket)
    session.add(line(2))
    session.close()
    session.add(basket)
    basket.raise_event(BasketFilled())
    session.rollback()
    session.close()


@pytest.mark.parametrize("end", ["close", "reset", "invalidate"])
@pytest.mark.usefixtures("_silent")
def test_a_session_that_is_used_again_forgets_the_commits_before_its_end(
    session: Session, end: str
) -> None:
    session.add(Basket(id=1))
    session.commit()
    getattr(session, end)()
    session.get_one(Basket, 1).raise_event(BasketFilled())
    session.close()  # nothing was committed since: not even a change is saved


@pytest.mark.usefixtures("_silent")
def test_expunging_what_is_not_in_the_session_is_an_error_and_no_warning(session: Session) -> None:
    with pytest.raises(InvalidRequestError):
        session.expunge(line())
    with pytest.raises(UnmappedInstanceError):
        session.merge(object())
