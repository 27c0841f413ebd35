"""What resolvers know of a request: who asks, and how to have something done."""

from datetime import datetime
from typing import Annotated, TypeVar
from uuid import UUID

from dishka import AsyncContainer
from fastapi import Header
from strawberry.fastapi import BaseContext

from family.api.errors import NotSignedInError
from family.application.ports import Clock, CommandHandler
from family.domain.errors import InvalidEmailError
from family.domain.values import Email, User, UserId

Command = TypeVar("Command")
Result = TypeVar("Result")


class CurrentUser:
    """Who asks, as the gateway says that has signed them in."""

    def __init__(
        self,
        x_user_id: Annotated[str, Header()] = "",
        x_user_email: Annotated[str, Header()] = "",
    ) -> None:
        self._id = x_user_id
        self._email = x_user_email

    def get(self) -> User:
        """Give the user, or raise NotSignedInError."""
        try:
            return User(id=UserId(UUID(self._id)), email=Email.parse(self._email))
        except (ValueError, InvalidEmailError) as error:
            raise NotSignedInError from error


class Context(BaseContext):
    """One per request."""

    def __init__(self, container: AsyncContainer, current_user: CurrentUser) -> None:
        super().__init__()
        self._container = container
        self._current_user = current_user

    @property
    def user(self) -> User:
        """Who asks; raises NotSignedInError if nobody is known."""
        return self._current_user.get()

    async def now(self) -> datetime:
        clock: Clock = await self._container.get(Clock)
        return clock.now()

    async def run(self, handler: type[CommandHandler[Command, Result]], command: Command) -> Result:
        """Have a command done by a handler with a session of its own.

        A document may hold several; fields of a query even run at the same time.
        """
        async with self._container() as scope:
            return await (await scope.get(handler)).handle(command)
