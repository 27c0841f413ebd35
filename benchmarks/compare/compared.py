"""The contenders of the comparison: their programs and what pins their versions."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.contender import PEERS_PYTHON, Contender

PEERS_TXT = Path(__file__).parents[1] / "peers.txt"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A contender.

    - `packages`: what it is made of, as `peers.txt` names it
    - `application`, `worker`: modules of `benchmarks.contenders`; without a worker, the application
      publishes by itself
    - `creates`: the module that creates its tables, when it is called with "create"
    - `queue`: the queue that events arrive at; "" is the queue of the harness
    - `settings`: of its worker, none by default
    """

    name: str
    packages: tuple[str, ...]
    application: str
    worker: str = ""
    creates: str = ""
    table: str = ""
    queue: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    python: str = field(default_factory=lambda: str(PEERS_PYTHON))

    def program(self, module: str) -> Contender:
        """One of its programs."""
        return Contender(name=self.name, module=module, python=self.python, table=self.table)


POSTROOM = Compared(
    name="postroom",
    packages=("postroom",),
    application="postroom_application",
    worker="postroom_worker",
    creates="postroom_application",
    table="outbox",
    python=sys.executable,
)
AFTER_COMMIT = Compared(
    name="publish after commit",
    packages=("aio-pika",),
    application="aio_pika_application",
    python=sys.executable,
)
CELERY = Compared(
    name="Celery + on_commit",
    packages=("celery",),
    application="celery_application",
    worker="celery_worker",
    queue="celery",
)
FASTSTREAM_OUTBOX = Compared(
    name="faststream-outbox",
    packages=("faststream-outbox", "faststream"),
    application="faststream_outbox_application",
    worker="faststream_outbox_worker",
    creates="faststream_outbox_worker",
    table="faststream",
)
TXOUTBOX = Compared(
    name="txoutbox",
    packages=("txoutbox", "aio-pika"),
    application="txoutbox_application",
    worker="txoutbox_worker",
    creates="txoutbox_worker",
    table="txoutbox",
)
PGQUEUER = Compared(
    name="pgqueuer",
    packages=("pgqueuer", "aio-pika"),
    application="pgqueuer_application",
    worker="pgqueuer_worker",
    creates="pgqueuer_worker",
)
ALL = (AFTER_COMMIT, CELERY, PGQUEUER, FASTSTREAM_OUTBOX, TXOUTBOX, POSTROOM)
"""With their default settings."""
RETURNED = {"on_return_raises": True}
VARIANTS = (
    replace(FASTSTREAM_OUTBOX, name="faststream-outbox, on_return_raises", settings=RETURNED),
    replace(TXOUTBOX, name="txoutbox, on_return_raises", settings=RETURNED),
)
"""Played only if they are named."""


def pinned_versions() -> dict[str, str]:
    """The versions of `peers.txt`, by package."""
    lines = PEERS_TXT.read_text(encoding="utf-8").split()
    return dict(each.split("==") for each in lines)
