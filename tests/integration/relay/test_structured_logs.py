"""Log lines with fields, and without secrets: of a relay on both databases, in every format."""

import io
import json
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import structlog
from sqlalchemy import MetaData, select, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from postroom import (
    ClaimedRecord,
    HandlersPublisher,
    MemoryPublisher,
    Outage,
    OutageError,
    Outbox,
    OutboxRelay,
    Postponed,
    Publisher,
    Refused,
    RetrySchedule,
    UntypedEvent,
)
from postroom.cli.logs import JsonFormatter
from postroom.events.registry import EventRegistry
from postroom.publishers.base import Outcome
from tests.support.dropping import drop_tables
from tests.support.rows import rows, save
from tests.support.shop import outbox as shop

CARD, MAIL, TOKEN = "4111 1111 1111 1111", "canary@example.com", "tok_canary_6d2"
URL = "postgresql://me:hunter2@db/x"
HIDDEN = (CARD, CARD.replace(" ", ""), MAIL, TOKEN, "hunter2")
ONCE_AN_HOUR = RetrySchedule.seconds(3600)


class DeclinedError(Exception):
    """As a handler raises it, with whatever it had at hand."""


class Chatty:
    """Raises an error whose text, chain and note have every secret of the event in them."""

    async def handle(self, event: UntypedEvent) -> None:
        try:
            raise LookupError(f"no account for {event.payload!r} at {URL}")
        except LookupError as error:
            error.add_note(f"token {event.payload['session']['access_token']}")
            raise DeclinedError(f"card {event.payload['card']['number']} declined") from error


class ChattyPublisher(MemoryPublisher):
    """Answers with the payload in the reason, or raises it."""

    def __init__(self, answer: type[Exception] | type[Refused | Postponed | Outage]) -> None:
        super().__init__()
        self._answer = answer

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
        answers = [self._answer(f"amqp://me:hunter2@mq: {each.payload!r}") for each in records]
        if isinstance(answers[0], Exception):
            raise answers[0]
        return answers  # type: ignore[return-value]


@pytest.fixture
async def outbox(database: AsyncEngine) -> AsyncIterator[Outbox]:
    """An outbox that hides two fields, with one record that has both, and a token."""
    registry = EventRegistry()
    registry.handles("card.charged")(Chatty)
    outbox = Outbox(MetaData(), table="cards", redact=("email", "card.*"), events=registry)
    async with database.begin() as connection:
        await connection.run_sync(outbox.create_tables)
    async with AsyncSession(database) as session, session.begin():
        payload = {"email": MAIL, "card": {"number": CARD}, "session": {"access_token": TOKEN}}
        await outbox.dispatcher(session).dispatch(
            [
                UntypedEvent(
                    event_type="card.charged",
                    aggregate_type="order",
                    aggregate_id="7",
                    payload=payload,
                )
            ]
        )
    yield outbox
    await drop_tables(database, outbox.metadata)


@contextmanager
def logged_by(formatter: logging.Formatter) -> Iterator[io.StringIO]:
    """Give everything that postroom logs, as a formatter writes it."""
    stream, logger = io.StringIO(), logging.getLogger("postroom")
    handler, level = logging.StreamHandler(stream), logger.level
    handler.setFormatter(formatter)
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield stream
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def structlog_formatter() -> logging.Formatter:
    """Return what structlog's own documentation tells users to set up for other loggers."""
    chain: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.format_exc_info,
    ]
    return structlog.stdlib.ProcessorFormatter(
        processor=structlog.processors.JSONRenderer(), foreign_pre_chain=chain
    )


def lines_of(stream: io.StringIO, words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines() if words in line]


@pytest.mark.requirement("E8")
async def test_a_refusal_is_one_line_with_fields(outbox: Outbox, database: AsyncEngine) -> None:
    relay = OutboxRelay(outbox, database, HandlersPublisher(), retry=ONCE_AN_HOUR)
    with logged_by(JsonFormatter()) as ours, logged_by(structlog_formatter()) as structlogs:
        await relay.run_once()
    async with AsyncSession(database) as session:
        record = (await session.scalars(select(outbox.record))).one()
    expected = {
        "record_id": str(record.id),
        "event_type": "card.charged",
        "key": "order/7",
        "attempt": 1,
        "partition": record.partition,
        "retry_in": 3600.0,
        "level": "error",
    }
    for stream in (ours, structlogs):
        [line] = lines_of(stream, "DeclinedError")
        assert {name: line[name] for name in expected} == expected
        assert line["duration"] >= 0
        assert "Traceback" in line["exception"]
        assert {each["worker"] for each in lines_of(stream, "postroom:")} == {line["worker"]}


CHATTY: dict[str, Publisher] = {
    "handlers": HandlersPublisher(),
    "refused": ChattyPublisher(Refused),
    "postponed": ChattyPublisher(Postponed),
    "outage": ChattyPublisher(Outage),
    "raises an outage": ChattyPublisher(OutageError),
    "raises": ChattyPublisher(ValueError),
}


@pytest.mark.requirement("E10")
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("publisher", CHATTY)
async def test_no_log_row_or_health_shows_a_secret_of_a_record(
    outbox: Outbox, database: AsyncEngine, publisher: str
) -> None:
    relay = OutboxRelay(outbox, database, CHATTY[publisher], retry=ONCE_AN_HOUR)
    ended: object = None
    with logged_by(JsonFormatter()) as lines, logged_by(logging.Formatter()) as text_lines:
        try:
            ended = await relay.run_once()
        except OutageError as error:
            ended = error
    written = [lines.getvalue(), text_lines.getvalue(), str(ended), repr(relay.health)]
    async with database.connect() as connection:
        errors = list(await connection.scalars(text("SELECT error_message FROM cards")))
        attempts = list(await connection.scalars(text("SELECT reason FROM cards_attempts")))
    written += map(str, (*errors, *attempts))
    for secret in HIDDEN:
        assert not [each for each in written if secret in each], secret
    assert any("[redacted]" in each for each in written)


@pytest.mark.requirement("E10")
async def test_a_payload_that_cannot_be_read_is_not_shown(
    outbox: Outbox, database: AsyncEngine
) -> None:
    broken = f'["{TOKEN}"' if database.dialect.name == "sqlite" else "[]"
    column = "payload" if database.dialect.name == "sqlite" else "headers"
    async with database.begin() as connection:
        values = {"broken": broken}
        await connection.execute(text(f"UPDATE cards SET {column} = :broken"), values)
    relay = OutboxRelay(outbox, database, MemoryPublisher())
    with logged_by(logging.Formatter()) as stream:
        await relay.run_once()
    assert f"column `{column}` cannot be read" in stream.getvalue()
    assert TOKEN not in stream.getvalue()


async def test_neither_the_row_nor_a_log_shows_the_values_of_a_handlers_statement(
    sqlite_file: AsyncEngine, caplog: pytest.LogCaptureFixture
) -> None:
    registry = EventRegistry()

    @registry.handles("opened")
    class Saves:
        async def handle(self, event: UntypedEvent) -> None:
            values = {"email": MAIL, "token": TOKEN}
            async with sqlite_file.connect() as connection:
                await connection.execute(
                    text("INSERT INTO nowhere VALUES (:email, :token)"), values
                )

    await save(sqlite_file, UntypedEvent(event_type="opened", payload={}))
    handlers = HandlersPublisher(registry=registry)
    await OutboxRelay(shop, sqlite_file, handlers, retry=ONCE_AN_HOUR).run_once()
    [record] = await rows(sqlite_file)
    ours = [each for each in caplog.records if each.name.startswith("postroom")]
    [line] = [each.getMessage() for each in ours if each.levelno >= logging.ERROR]
    for shown in (str(record.error_message), line):
        assert "nowhere" in shown  # it says what is wrong
        assert not [each for each in ("INSERT", MAIL, TOKEN) if each in shown]
