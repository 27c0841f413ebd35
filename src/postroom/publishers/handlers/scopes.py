"""Where handlers come from: a container, or a factory."""

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Protocol, cast

from postroom.errors import OutageError, PostroomError


class Scope(Protocol):
    """What one handler lives in: its own session, its own unit of work."""

    async def get(self, dependency_type: Any, /) -> Any:
        """Give the scope's object of a type."""


class Container(Protocol):
    """The protocol of containers for `HandlersPublisher`. Dishka's AsyncContainer follows it."""

    def __call__(self) -> AbstractAsyncContextManager[Scope]:
        """Return an async context manager of a scope, which has `async get(type)`."""


Factory = Callable[[type[Any]], Any]
"""Gives a handler for its class: an instance, an awaitable of one, or an async context manager."""


class BuildError(PostroomError):
    """Raised when a container or factory cannot give what is asked for."""


class FactoryContainer:
    """A container over a plain factory; what is a context manager lasts as long as the scope."""

    def __init__(self, factory: Factory) -> None:
        self._factory = factory

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[Scope]:
        """Open a scope."""
        async with AsyncExitStack() as stack:
            yield _FactoryScope(self._factory, stack)


class _FactoryScope:
    def __init__(self, factory: Factory, stack: AsyncExitStack) -> None:
        self._factory = factory
        self._stack = stack

    async def get(self, dependency_type: Any, /) -> Any:
        made = self._factory(dependency_type)
        if inspect.isawaitable(made):
            made = await made
        if isinstance(made, AbstractAsyncContextManager):
            return await self._stack.enter_async_context(made)
        return made


def application_container(container: Container) -> Container:
    """Give the container of the whole application, whichever of its scopes is given.

    A Dishka container of a request would open scopes within that request, where a handler would
    get the request's own session.
    """
    outermost, parent = container, getattr(container, "parent_container", None)
    while parent is not None:
        if not parent.scope.skip:
            outermost = cast(Container, parent)
        parent = parent.parent_container
    return outermost


@asynccontextmanager
async def opened(container: Container) -> AsyncIterator[Scope]:
    """Open a scope; an error while it closes does not hide the one that it is closed for."""
    failure: BaseException | None = None
    try:
        async with container() as scope:
            try:
                yield scope
            except BaseException as error:
                failure = error
                raise
    except Exception:
        if failure is None:
            raise
        raise failure  # noqa: B904 - the same, not a new one


async def build(scope: Scope, wanted: Any) -> Any:
    """Get something from a scope. Raises BuildError, or the OutageError of the container."""
    try:
        return await scope.get(wanted)
    except OutageError:
        raise
    except Exception as error:
        raise BuildError(f"{_name(wanted)} cannot be built: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """Say what an error says, without the drawings that Dishka adds below."""
    lines = [line for line in str(error).splitlines() if line and not line.startswith(" ")]
    return " ".join([f"{type(error).__name__}:", *(line.strip() for line in lines)]).rstrip(": ")


def _name(wanted: Any) -> str:
    return getattr(wanted, "__qualname__", None) or repr(wanted)
