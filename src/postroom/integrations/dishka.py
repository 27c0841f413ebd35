"""Dishka: handlers and dispatcher at request scope, a check at start-up."""

from collections.abc import Iterable
from typing import Any

from dishka import AnyOf, AsyncContainer, Provider, Scope
from sqlalchemy.ext.asyncio import AsyncSession

from postroom.capture.dispatcher import OutboxEventDispatcher
from postroom.errors import ConfigurationError
from postroom.events.protocols import EventDispatcher
from postroom.events.registry import EventRegistry, default_registry
from postroom.outbox import Outbox
from postroom.publishers.handlers.scopes import application_container, one_line, opened

__all__ = ["EventHandlerProvider", "OutboxProvider", "check_handlers"]


class EventHandlerProvider(Provider):
    """A Dishka provider of all registered handlers, at request scope.

    Import the handlers first, for example with `auto_discover_handlers`. Raises ConfigurationError,
    which lists the handlers that Dishka cannot read.
    """

    def __init__(self, registry: EventRegistry = default_registry) -> None:
        super().__init__(scope=Scope.REQUEST)
        problems = [self._add(handler) for handler in registry.handler_classes()]
        _raise_all("Dishka cannot read", problems)

    def _add(self, handler: type[Any]) -> str | None:
        try:
            self.provide(handler)
        except Exception as error:
            return _line(handler, error)
        return None


class OutboxProvider(Provider):
    """A Dishka provider of `OutboxEventDispatcher` and `EventDispatcher`, at request scope.

    - `session`: the type for which your providers give the session of the request (AsyncSession)
    """

    def __init__(self, outbox: Outbox, session: Any = AsyncSession) -> None:
        super().__init__(scope=Scope.REQUEST)

        def dispatcher(of: Any) -> OutboxEventDispatcher:
            return outbox.dispatcher(of)

        dispatcher.__annotations__["of"] = session
        self.provide(dispatcher, provides=AnyOf[OutboxEventDispatcher, EventDispatcher])


async def check_handlers(
    container: AsyncContainer, registry: EventRegistry = default_registry
) -> None:
    """Build every handler once; raise ConfigurationError, which lists those that cannot be built.

    Dishka's own check of a container ends at the first problem. For a list of all problems, make
    the container with `skip_validation=True`, and call this at start-up.
    """
    problems = [await _problem(container, handler) for handler in registry.handler_classes()]
    _raise_all("the container cannot build", problems)


async def _problem(container: AsyncContainer, handler: type[Any]) -> str | None:
    try:
        async with opened(application_container(container)) as scope:
            await scope.get(handler)
    except Exception as error:
        return _line(handler, error)
    return None


def _raise_all(beginning: str, found: Iterable[str | None]) -> None:
    problems = [problem for problem in found if problem is not None]
    if problems:
        text = "\n".join(f"  {problem}" for problem in problems)
        raise ConfigurationError(f"{beginning} {len(problems)} of the event handlers:\n{text}")


def _line(handler: type[Any], error: BaseException) -> str:
    return f"{handler.__module__}.{handler.__qualname__}: {one_line(error)}"
