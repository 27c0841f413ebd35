"""The user of a request, and the account that owns everything."""

from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import Depends, HTTPException
from fastapi.security import APIKeyHeader

UserHeader = APIKeyHeader(name="X-User-Id", scheme_name="user", auto_error=False)
AccountHeader = APIKeyHeader(name="X-Account-Id", scheme_name="account", auto_error=False)


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who may do everything in one account."""

    id: UUID
    account_id: UUID


async def current_user(
    user_id: Annotated[str | None, Depends(UserHeader)],
    account_id: Annotated[str | None, Depends(AccountHeader)],
) -> User:
    """Take the user from the headers that a gateway sets, when it has checked the login.

    Where there is no gateway, this is the one function to replace: read a token here.
    """
    try:
        return User(UUID(user_id or ""), UUID(account_id or ""))
    except ValueError:
        error = "say who you are: X-User-Id and X-Account-Id are UUIDs"
        raise HTTPException(401, error, {"WWW-Authenticate": "X-User-Id"}) from None


CurrentUser = Annotated[User, Depends(current_user)]
