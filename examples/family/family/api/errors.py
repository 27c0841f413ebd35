"""What the rules say no to, as types of the API: every mutation answers with its payload or one."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import strawberry

from family.domain import errors as domain

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class NotSignedInError(Exception):
    """Raised when a request does not say who the user is."""

    def __str__(self) -> str:
        return "Sign in first."


@strawberry.interface(name="Error", description="Why something was not done.")
class Problem:
    message: str


@strawberry.type
class NotSignedIn(Problem): ...


@strawberry.type
class InvalidEmail(Problem): ...


@strawberry.type
class InvalidFamilyName(Problem): ...


@strawberry.type
class FamilyNotFound(Problem): ...


@strawberry.type
class NotAllowed(Problem): ...


@strawberry.type
class RoleNotAllowed(Problem): ...


@strawberry.type
class AlreadyMember(Problem): ...


@strawberry.type
class AlreadyInvited(Problem): ...


@strawberry.type
class TooManyInvitations(Problem): ...


@strawberry.type
class InvitationNotFound(Problem): ...


@strawberry.type
class InvitationExpired(Problem): ...


@strawberry.type
class InvitationAccepted(Problem): ...


@strawberry.type
class ResendTooSoon(Problem): ...


@strawberry.type
class TooManyResends(Problem): ...


PROBLEMS: dict[type[Exception], type[Problem]] = {
    NotSignedInError: NotSignedIn,
    domain.InvalidEmailError: InvalidEmail,
    domain.InvalidFamilyNameError: InvalidFamilyName,
    domain.FamilyNotFoundError: FamilyNotFound,
    domain.NotAllowedError: NotAllowed,
    domain.RoleNotAllowedError: RoleNotAllowed,
    domain.AlreadyMemberError: AlreadyMember,
    domain.AlreadyInvitedError: AlreadyInvited,
    domain.TooManyInvitationsError: TooManyInvitations,
    domain.InvitationNotFoundError: InvitationNotFound,
    domain.InvitationExpiredError: InvitationExpired,
    domain.InvitationAcceptedError: InvitationAccepted,
    domain.ResendTooSoonError: ResendTooSoon,
    domain.TooManyResendsError: TooManyResends,
}


def answers_problems(
    resolver: Callable[Arguments, Awaitable[Answer]],
) -> Callable[Arguments, Coroutine[Any, Any, Answer]]:
    """Have a resolver answer what it raises, as a type that its union has."""

    @wraps(resolver)
    async def resolve(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        try:
            return await resolver(*args, **kwargs)
        except tuple(PROBLEMS) as error:
            return cast(Answer, PROBLEMS[type(error)](message=str(error)))

    return resolve
