"""The profile of somebody who has an account."""

from typing import Self
from uuid import UUID


class Profile:
    """How others see somebody. There is one for an account."""

    def __init__(self, *, account_id: UUID, display_name: str) -> None:
        self.account_id = account_id
        self.display_name = display_name

    @classmethod
    def for_account(cls, account_id: UUID, email: str) -> Self:
        """Make the first profile, called by what stands before the @."""
        return cls(account_id=account_id, display_name=email.rpartition("@")[0])
