"""The profile of somebody who has an account."""

from typing import Self
from uuid import UUID


class Profile:
    """The public name of an account. Each account has one profile."""

    def __init__(self, *, account_id: UUID, display_name: str) -> None:
        self.account_id = account_id
        self.display_name = display_name

    @classmethod
    def for_account(cls, account_id: UUID, email: str) -> Self:
        """Return the first profile of an account, named by the part before the @."""
        return cls(account_id=account_id, display_name=email.rpartition("@")[0])
