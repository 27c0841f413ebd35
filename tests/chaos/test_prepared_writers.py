"""A transaction that is committed in two phases: claims wait for the second one, too."""

from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import MetaData, create_engine, make_url
from sqlalchemy.ext.asyncio import create_async_engine

from postroom import Outbox, OutboxRecord
from postroom.store.claims import PREPARED
from postroom.store.store import Store
from tests.chaos.server import Server, private_server

pytestmark = pytest.mark.extended


class WrittenRecord(OutboxRecord):
    """A record that nobody reads."""


class OtherRecord(OutboxRecord):
    """A record of another outbox."""


METADATA = MetaData()
OUTBOX = Outbox(METADATA, table="it's written", record=WrittenRecord)
OTHER = Outbox(METADATA, table="other", record=OtherRecord)


@pytest.fixture
def server() -> Iterator[Server]:
    with private_server() as server:
        engine = create_engine(make_url(server.url).set(drivername="postgresql+psycopg"))
        with engine.begin() as connection:
            METADATA.create_all(connection)
        engine.dispose()
        yield server


def insert(table: str) -> str:
    return f'INSERT INTO "{table}" SELECT * FROM "{table}" WHERE false'


@pytest.mark.requirement("E13")
async def test_who_writes_to_the_outbox_is_known_until_the_commit_can_be_seen(
    server: Server,
) -> None:
    async def writers() -> frozenset[str]:
        engine = create_async_engine(server.url)
        found = await Store(engine, OUTBOX.tables).claims.writers()
        await engine.dispose()
        return found

    with connected(server) as one, connected(server) as other:
        other.execute("BEGIN")
        other.execute(insert("other"))
        assert await writers() == set()
        one.execute("BEGIN")
        one.execute(insert("it's written"))
        before = await writers()
        assert len(before) == 1
        one.execute("PREPARE TRANSACTION 'first'")
        assert await writers() in (before, {PREPARED})  # older servers forget the name at once
    server.crash()
    server.start()
    assert await writers() == {PREPARED}
    with connected(server) as another:
        another.execute("COMMIT PREPARED 'first'")
    assert await writers() == set()


def connected(server: Server) -> psycopg.Connection:
    address = make_url(server.url).set(drivername="postgresql").render_as_string()
    return psycopg.connect(address, autocommit=True)
