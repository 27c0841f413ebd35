"""Calls the publisher. An unexpected error of it is an outage."""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from postroom.errors import OutageError, traceable
from postroom.publishers.base import Delivered, Outage, Publisher, Refused
from postroom.record import ClaimedRecord, secrets_of
from postroom.redaction import mask
from postroom.relay.observer import Answer, Observers
from postroom.store.base import HeldRecord

logger = logging.getLogger("postroom.relay")


async def publish(
    publisher: Publisher,
    held: Sequence[HeldRecord],
    observers: Observers,
    redact: Sequence[str] = (),
) -> Sequence[Answer]:
    """Call the publisher; return its answer to each record. An outage that it raises is for all.

    The answers hold no value of a record's hidden fields, `redact` being the outbox's own.
    """
    records = [each.record for each in held]
    if not observers:
        return await _publish(publisher, records, redact)
    began = time.perf_counter()
    with observers.publishing(records):
        answers = await _publish(publisher, records, redact)
        seconds = time.perf_counter() - began
        observers.tell(lambda it: it.published(records, answers, seconds))
    return answers


async def _publish(
    publisher: Publisher, records: Sequence[ClaimedRecord], redact: Sequence[str]
) -> Sequence[Answer]:
    try:
        answers = list(await publisher.publish(records))
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        problem = "the publisher cancelled its own call"
    except Exception as error:
        secrets = frozenset[str]().union(*(secrets_of(each, redact) for each in records))
        if isinstance(error, OutageError):
            outage = Outage.of(error)
            return [replace(outage, reason=mask(outage.reason, secrets))] * len(records)
        logger.error("postroom: the publisher failed", exc_info=traceable(error, secrets))
        problem = mask(f"the publisher raised {error!r}", secrets)
    else:
        kinds = set(map(type, answers))
        if len(answers) == len(records) and all(issubclass(each, Answer) for each in kinds):
            if kinds <= {Delivered}:  # nearly always
                return answers
            both = zip(answers, records, strict=True)
            return [_without_secrets(answer, record, redact) for answer, record in both]
        problem = (
            f"the publisher gave {len(answers)} answers for {len(records)} records, and each has"
            " to be Delivered, Refused, Postponed or Outage"
        )
    return [Outage(problem, connection_lost=True)] * len(records)  # a record may have caused it


def _without_secrets(answer: Answer, record: ClaimedRecord, redact: Sequence[str]) -> Answer:
    if isinstance(answer, Delivered):
        return answer
    secrets = secrets_of(record, redact)
    reason = mask(str(answer.reason), secrets)
    if isinstance(answer, Refused) and answer.error is not None:
        return replace(answer, reason=reason, error=traceable(answer.error, secrets))
    return replace(answer, reason=reason)
