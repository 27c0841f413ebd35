"""The worker's name, in each of its log lines."""

import logging
from contextvars import ContextVar
from typing import Final

_worker: ContextVar[str | None] = ContextVar("postroom_worker", default=None)
LOGGERS: Final = ("postroom.relay", "postroom.publishers", "postroom.store")


def log_as(worker: str) -> None:
    """Give the lines that this task and those that it starts log the field `worker`."""
    _worker.set(worker)


def _add_worker(line: logging.LogRecord) -> bool:
    if (worker := _worker.get()) is not None:
        line.worker = worker
    return True


for _name in LOGGERS:
    logging.getLogger(_name).addFilter(_add_worker)
