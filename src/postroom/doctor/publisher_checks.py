"""The checks of the publisher: the broker of RabbitMQ, or the handlers of this program."""

import asyncio
from collections.abc import AsyncIterator, Collection
from typing import TYPE_CHECKING, Final

from postroom.doctor import broker
from postroom.doctor.finding import TIME_LIMIT, Finding, Result, note, problem, reason
from postroom.doctor.handlers import judge_handlers
from postroom.publishers.base import Publisher
from postroom.publishers.handlers.publisher import HandlersPublisher

if TYPE_CHECKING:
    from postroom.publishers.rabbitmq import RabbitMQPublisher

SUBJECT: Final = "publisher"


async def check_publisher(
    publisher: Publisher | None, relay_name: str | None, event_types: Collection[str]
) -> AsyncIterator[Result]:
    """Check what can be known of a publisher. `event_types`: those of the records in the table."""
    rabbitmq = _as_rabbitmq(publisher)
    if rabbitmq is not None:
        async for result in _check_broker(rabbitmq, relay_name, event_types):
            yield result
    elif isinstance(publisher, HandlersPublisher) and publisher.registry is not None:
        yield _result("handlers", *judge_handlers(publisher.registry, event_types))
    elif publisher is None:
        text = "no broker and no relay was named, so that neither can be checked"
        yield _result("broker", note(text, "--relay MODULE:RELAY, or --broker amqp://…"))


async def _check_broker(
    publisher: "RabbitMQPublisher", relay_name: str | None, event_types: Collection[str]
) -> AsyncIterator[Result]:
    from postroom.publishers.rabbitmq.survey import survey

    try:
        async with asyncio.timeout(TIME_LIMIT * len(publisher.cluster.addresses)):
            facts = await survey(publisher, event_types)
    except Exception as error:
        yield _result("connection", problem(reason(error)))
        return
    apply = f"postroom topology {relay_name or 'MODULE:RELAY'} --apply"
    yield _result("connection", *broker.judge_connection(facts))
    yield _result("exchanges", *broker.judge_exchanges(facts, apply))
    yield _result("queues", *broker.judge_queues(facts, apply))
    if facts.topology is not None:  # else nobody can ask which queues are bound
        yield _result("bindings", *broker.judge_bindings(facts, facts.topology))


def _as_rabbitmq(publisher: Publisher | None) -> "RabbitMQPublisher | None":
    try:
        from postroom.publishers.rabbitmq import RabbitMQPublisher
    except ModuleNotFoundError:  # the extra is not installed, so it is none
        return None
    return publisher if isinstance(publisher, RabbitMQPublisher) else None


def _result(check: str, *findings: Finding) -> Result:
    return Result(subject=SUBJECT, check=check, findings=findings)
