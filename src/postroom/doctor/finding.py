"""What a check finds: all well, a note or a problem, with the remedy."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from postroom.database.errors import describe
from postroom.errors import PostroomError
from postroom.redaction import mask

TIME_LIMIT: Final = 10.0
"""Seconds that a check may take."""


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing, or it could not be checked. Nothing stops working."""
    PROBLEM = "problem"
    """Somebody has to do something."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence, and what to do: each a command, a statement or a sentence."""

    level: Level
    text: str
    remedy: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a check has found."""

    subject: str
    """What was looked at: the database, the broker, …"""
    check: str
    findings: tuple[Finding, ...]

    @property
    def has_problem(self) -> bool:
        """Whether somebody has to do something."""
        return any(each.level == Level.PROBLEM for each in self.findings)


@dataclass(frozen=True, slots=True)
class Check:
    """Something to look at. `find` reads facts and has them judged."""

    subject: str
    name: str
    find: Callable[[], Awaitable[Iterable[Finding]]]

    async def run(self) -> Result:
        """Look at it. What cannot be looked at is a note that says why."""
        try:
            async with asyncio.timeout(TIME_LIMIT):
                findings = tuple(await self.find())
        except Exception as error:
            findings = (note(f"not checked: {reason(error)}"),)
        return Result(subject=self.subject, check=self.name, findings=findings)


def ok(text: str) -> Finding:
    """Return a finding that needs nobody. No finding shows a password."""
    return Finding(Level.OK, mask(text))


def note(text: str, *remedy: str) -> Finding:
    """Return a finding that is worth knowing."""
    return Finding(Level.NOTE, mask(text), remedy)


def problem(text: str, *remedy: str) -> Finding:
    """Return a finding that somebody has to do something about."""
    return Finding(Level.PROBLEM, mask(text), remedy)


def reason(error: Exception) -> str:
    """Say why something could not be looked at."""
    text = str(error) if isinstance(error, PostroomError) else describe(error)
    return text.rstrip(".")
