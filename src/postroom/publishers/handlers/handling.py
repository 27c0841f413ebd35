"""Runs handlers beside each other, each in a scope of its own."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from postroom.errors import error_text
from postroom.events.registry import HandlerEntry
from postroom.publishers.handlers.scopes import Container, Scope, build, opened

Preparation = Callable[[Scope], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Call:
    """A handler, and the event that it gets."""

    entry: HandlerEntry
    event: Any

    @property
    def name(self) -> str:
        """What the handler is remembered by."""
        return self.entry.name


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that did not succeed, and why."""

    call: Call
    error: BaseException

    def describe(self, secrets: Collection[str] = ()) -> str:
        """Name the handler and its error, without these secrets."""
        kind, text = type(self.error).__name__, error_text(self.error, secrets)
        said = text if text.startswith(kind) else f"{kind}: {text}"
        return f"{self.call.name}: {said}"


async def handle(container: Container, call: Call, prepare: Preparation | None = None) -> None:
    """Run a handler in a scope of its own, which `prepare` sees first."""
    async with opened(container) as scope:
        if prepare is not None:
            await prepare(scope)
        handler = await build(scope, call.entry.handler)
        answer = handler.handle(call.event)
        if inspect.isawaitable(answer):  # a plain method does too, though it holds up the loop
            await answer


async def within(block: AbstractContextManager[Any], work: Coroutine[Any, Any, None]) -> None:
    """Await some work within a block, which sees what the work raises."""
    with block:
        await work


async def attempt(call: Call, work: Coroutine[Any, Any, None]) -> Failure | None:
    """Await the work of a call; give what it raised."""
    try:
        await work
    except asyncio.CancelledError as error:
        if _is_being_cancelled():
            raise
        return Failure(call, error)  # of something that the handler waited for
    except Exception as error:
        return Failure(call, error)
    return None


async def all_of(attempts: Iterable[Coroutine[Any, Any, Failure | None]]) -> list[Failure]:
    """Run attempts concurrently, each in a task of its own; give those that failed, in order."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in attempts]
    results = (task.result() for task in tasks)
    return [result for result in results if result is not None]


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
