"""Tests that are a story in one session, and are played in a sync and in an async one."""

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from inspect import Parameter, signature
from typing import Any

from sqlalchemy.orm import Session

Story = Callable[[Session], None]
Play = Callable[[Story], Awaitable[None]]


def story(test: Callable[..., None]) -> Callable[..., Awaitable[None]]:
    """Make a test of a `session` one that the fixture `play` runs, in each kind of session."""

    @wraps(test)
    async def played(play: Play, **values: Any) -> None:
        await play(partial(test, **values))

    _, *others = signature(test).parameters.values()
    play = Parameter("play", Parameter.POSITIONAL_OR_KEYWORD)
    played.__signature__ = signature(test).replace(parameters=[play, *others])  # type: ignore[attr-defined]
    return played
