"""Jobs: changes of many records that go on while their page shows how far they are."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from secrets import token_urlsafe
from typing import Final

from postroom.actions import Action, Chosen
from postroom.errors import error_text, traceable
from postroom.inspection import counted
from postroom.operations import Operations

logger = logging.getLogger("postroom.console")

KEPT: Final = 100
"""How many jobs are remembered."""
SOON: Final = 1.0
"""Seconds that a page waits for a job, before it shows that the job goes on."""


@dataclass(slots=True, kw_only=True)
class Job:
    """A change that was begun."""

    id: str
    action: Action
    total: int
    back: str
    """The path of the page to return to."""
    done: int = 0
    error: str | None = None
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def is_finished(self) -> bool:
        """Whether it has ended, well or not."""
        return self.task is not None and self.task.done()

    @property
    def text(self) -> str:
        """What it has done, in one sentence."""
        total = counted(self.total, "record")
        if self.error is not None:
            return f"{self.action.verb} stopped after {self.done:,} of {total}: {self.error}"
        if self.is_finished:
            return f"{self.action.done} {counted(self.done, 'record')}."
        return f"{self.action.done} {self.done:,} of {total} so far."


class Jobs:
    """The jobs of this process, the newest ones."""

    def __init__(self, ended: Callable[[], None]) -> None:
        """Make it; `ended` is called when a job has ended."""
        self._jobs: dict[str, Job] = {}
        self._ended = ended

    def find(self, name: str) -> Job | None:
        """Return a job by its id, if this process has begun it and remembers it."""
        return self._jobs.get(name)

    async def start(self, action: Action, chosen: Chosen, operations: Operations, back: str) -> Job:
        """Begin a change, and wait a moment for its end."""
        job = Job(id=token_urlsafe(9), action=action, total=len(chosen.ids), back=back)
        self._jobs[job.id] = job
        for old in list(self._jobs)[:-KEPT]:
            if self._jobs[old].is_finished:
                del self._jobs[old]

        def progress(done: int) -> None:
            job.done = done

        change = action.of(operations)
        changing = change(chosen.ids, chosen_by=chosen.chosen_by, progress=progress)
        name = f"postroom console {action.verb}"
        job.task = asyncio.create_task(self._run(job, changing), name=name)
        await asyncio.wait({job.task}, timeout=SOON)
        return job

    async def stop(self) -> None:
        """End the jobs that go on: each has changed what it has changed."""
        tasks = [each.task for each in self._jobs.values() if each.task and not each.is_finished]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, job: Job, changing: Awaitable[int]) -> None:
        try:
            job.done = await changing
        except asyncio.CancelledError:
            job.error = "the console was stopped"
            logger.warning("postroom: %s", job.text)
            raise
        except Exception as error:
            job.error = error_text(error)
            logger.error("postroom: %s", job.text, exc_info=traceable(error))
        finally:
            self._ended()
