"""The findings of `postroom doctor`, gathered beside the page that shows them."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from postroom.doctor import Result, Subject, examine
from postroom.errors import error_text

FRESH: Final = timedelta(minutes=1)
"""How long findings are shown before they are gathered anew."""
SOON: Final = 0.2
"""Seconds that a page waits for findings, before it shows those that are there."""


@dataclass(slots=True, kw_only=True)
class Findings:
    """What the checks have found so far."""

    began_at: datetime
    results: list[Result] = field(default_factory=list)
    error: str | None = None
    """What ended the checks before their end."""
    is_finished: bool = False

    def count(self, level: str) -> int:
        """Count the findings of a level."""
        return sum(each.level == level for result in self.results for each in result.findings)


class Checkup:
    """Runs the checks, once at a time."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._task: asyncio.Task[None] | None = None
        self._found: Findings | None = None

    def start(self) -> None:
        """Run the checks anew, unless they run."""
        if self._found is None or self._found.is_finished:
            self._found = Findings(began_at=datetime.now(UTC))
            self._task = asyncio.create_task(self._run(self._found), name="postroom console doctor")

    async def findings(self) -> Findings:
        """Return what the checks have found; run them anew if that is long ago."""
        if self._found is None or _is_old(self._found):
            self.start()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=SOON)
        assert self._found is not None  # noqa: S101
        return self._found

    async def _run(self, found: Findings) -> None:
        try:
            async for result in examine(self._subject):
                found.results.append(result)
        except Exception as error:
            found.error = error_text(error)
        finally:
            found.is_finished = True


def _is_old(found: Findings) -> bool:
    return datetime.now(UTC) - found.began_at > FRESH
