"""The contenders as the harness sees them: their processes, their tables, their settings."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import MetaData, text
from sqlalchemy.ext.asyncio import AsyncConnection

from benchmarks.backlog import PAYLOAD, add_records, key_names
from postroom import Outbox
from postroom.wakeup.notifier import CHANNEL

ROOT = Path(__file__).parents[1]
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"

metadata = MetaData()
outbox = Outbox(metadata)


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A way to deliver records, in a process of its own.

    - `module`: of `benchmarks.contenders`; runs in the process
    - `insert`: SQL that inserts `:count` events of `:keys` keys, numbered from `:first` on; empty
      without an outbox
    - `notify`: SQL that wakes the worker, in the transaction of the insert
    - `share`: the part of the records that it delivers: less for one that would take minutes
    """

    name: str
    module: str
    python: str = sys.executable
    table: str = ""
    create: str = ""
    insert: str = ""
    notify: str = ""
    share: float = 1.0
    keeps_order: bool = False
    creates_itself: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    async def fill(
        self, connection: AsyncConnection, count: int, keys: int, first: int = 0
    ) -> None:
        """Insert events of these keys in turn, numbered from `first` on."""
        values = {"first": first, "count": count, "keys": keys}
        await connection.execute(text(self.insert), values)


class Postroom(Contender):
    """Its records are inserted as `benchmarks.backlog` does."""

    async def fill(
        self, connection: AsyncConnection, count: int, keys: int, first: int = 0
    ) -> None:
        assert first == 0, "single events go through the dispatcher"
        await add_records(connection, outbox, count, key_names("order", keys))


EVENTS = """(SELECT n, gen_random_uuid() AS id, 'order-' || n % CAST(:keys AS bigint) AS key
    FROM (SELECT CAST(:first AS bigint) + each AS n
        FROM generate_series(0, CAST(:count AS bigint) - 1) AS each) AS numbers
    ORDER BY n) AS events"""
BYTES = f"convert_to(CAST({PAYLOAD} AS text), 'UTF8')"

RAW = Contender(name="raw", module="raw")
RAW_ONE_BY_ONE = replace(RAW, name="raw, one by one", settings={"in_flight": 1})
AIO_PIKA = Contender(name="aio-pika", module="aio_pika_alone", share=0.25)
TEXTBOOK = Contender(
    name="textbook",
    module="textbook",
    table="textbook",
    share=0.05,
    create="""CREATE TABLE textbook (id bigserial PRIMARY KEY, event_id uuid NOT NULL,
        key text NOT NULL, payload jsonb NOT NULL, created_at timestamptz NOT NULL DEFAULT now(),
        published_at timestamptz);
        CREATE INDEX ON textbook (id) WHERE published_at IS NULL""",
    insert=f"INSERT INTO textbook (event_id, key, payload) SELECT id, key, {PAYLOAD} FROM {EVENTS}",
)
POSTROOM = Postroom(
    name="postroom",
    module="postroom_worker",
    table=outbox.tables.records.name,
    notify=f"SELECT pg_notify('{CHANNEL}', '')",
    keeps_order=True,
)
POSTROOM_500 = replace(POSTROOM, name="postroom, batch 500", settings={"batch_size": 500})
TXOUTBOX = Contender(
    name="txoutbox",
    module="txoutbox_worker",
    python=str(PEERS_PYTHON),
    table="txoutbox",
    insert=f"""INSERT INTO txoutbox (topic, key, payload)
        SELECT 'OrderPlaced', key, {BYTES} FROM {EVENTS}""",
    share=0.25,
    keeps_order=True,
    creates_itself=True,
    settings={"batch_size": 500, "concurrency": 100},
)
FASTSTREAM_OUTBOX = Contender(
    name="faststream-outbox",
    module="faststream_outbox_worker",
    python=str(PEERS_PYTHON),
    table="faststream",
    insert=f"""INSERT INTO faststream (queue, payload, headers)
        SELECT 'faststream', {BYTES}, '{{"content-type": "application/json"}}' FROM {EVENTS}""",
    notify="SELECT pg_notify('outbox_faststream', 'faststream')",
    share=0.25,
    creates_itself=True,
    settings={"max_workers": 16, "fetch_batch_size": 100, "terminal_flush_batch_size": 100},
)


def peers() -> list[Contender]:
    """The other libraries, if `make bench-peers` has installed them."""
    return [TXOUTBOX, FASTSTREAM_OUTBOX] if PEERS_PYTHON.exists() else []
