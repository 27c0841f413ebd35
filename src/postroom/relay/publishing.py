"""The call of the publisher, which may be anybody's code: what it gets wrong is an outage."""

import asyncio
import logging
from collections.abc import Sequence

from postroom.errors import OutageError
from postroom.publishers.base import Delivered, Outage, Outcome, Postponed, Publisher, Refused
from postroom.store.base import HeldRecord

logger = logging.getLogger("postroom.relay")

Answer = Outcome | Outage
ANSWERS = (Delivered, Refused, Postponed, Outage)


async def publish(publisher: Publisher, records: Sequence[HeldRecord]) -> Sequence[Answer]:
    """Call the publisher; return its answer to each record. An outage that it raises is for all."""
    try:
        answers = list(await publisher.publish([each.record for each in records]))
    except OutageError as error:
        return [Outage.of(error)] * len(records)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        problem = "the publisher cancelled its own call"
    except Exception as error:
        logger.exception("postroom: the publisher failed")
        problem = f"the publisher raised {error!r}"
    else:
        kinds = set(map(type, answers))
        known = kinds == {Delivered} or all(issubclass(each, ANSWERS) for each in kinds)
        if len(answers) == len(records) and known:
            return answers
        problem = (
            f"the publisher gave {len(answers)} answers for {len(records)} records, and each has"
            " to be Delivered, Refused, Postponed or Outage"
        )
    return [Outage(problem, connection_lost=True)] * len(records)  # a record may have caused it
