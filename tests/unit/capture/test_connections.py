"""`outbox.save` into sessions, and what it refuses before there is any I/O."""

from typing import Any

import pytest
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from postroom import CaptureError, EventRegistry, Outbox, OutboxRecord, UntypedEvent


class SavedRecord(OutboxRecord):
    pass


outbox = Outbox(MetaData(), record=SavedRecord, table="saved", events=EventRegistry())
event = UntypedEvent(event_type="x", payload={})


@pytest.fixture(
    params=[
        Session,
        AsyncSession,
        lambda: scoped_session(sessionmaker()),
        lambda: async_scoped_session(async_sessionmaker(), scopefunc=lambda: 1),
    ]
)
def session(request: pytest.FixtureRequest) -> Any:
    """Each kind of session, sync and async."""
    return request.param()


async def test_records_are_added_to_a_session(session: Any) -> None:
    await outbox.save(session, [event])
    outbox.save_sync(session, [UntypedEvent(event_type="x", payload={})])
    assert [record.event_type for record in session.new] == ["x", "x"]
    assert all(type(record) is SavedRecord for record in session.new)
    with pytest.raises(CaptureError, match="already"):
        outbox.save_sync(session, [event])


async def test_a_refused_event_takes_the_others_along(session: Any) -> None:
    unfit = UntypedEvent(event_type="x", payload={"x": float("nan")})
    with pytest.raises(CaptureError, match="NaN"):
        await outbox.save(session, [event, unfit])
    assert not session.new


@pytest.mark.parametrize("given", [event, None, 1])
async def test_one_event_instead_of_a_list_is_refused(session: Any, given: Any) -> None:
    with pytest.raises(CaptureError, match="instead of a list"):
        await outbox.save(session, given)


@pytest.mark.parametrize("given", [None, "postgresql://", object(), Session, outbox])
async def test_what_is_no_connection_is_refused(given: Any) -> None:
    with pytest.raises(CaptureError, match="Give a connection or session of SQLAlchemy, or a"):
        await outbox.save(given, [event])
    with pytest.raises(CaptureError):
        outbox.save_sync(given, [])
