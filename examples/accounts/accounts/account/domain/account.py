"""The account, which raises AccountCreated."""

from typing import Self
from uuid import UUID, uuid4

from postroom import AggregateRoot

from accounts.account.domain.events import AccountCreated
from accounts.account.domain.role import AccountRole


class Account(AggregateRoot):
    """Somebody who has signed up. An email address has one account; case does not matter."""

    def __init__(self, *, account_id: UUID, email: str, password_hash: str, role: AccountRole):
        self.account_id = account_id
        self.email = email
        self.password_hash = password_hash
        self.role = role

    @classmethod
    def sign_up(cls, email: str, password_hash: str) -> Self:
        account = cls(
            account_id=uuid4(),
            email=email.strip().casefold(),
            password_hash=password_hash,
            role=AccountRole.USER,
        )
        account.raise_event(
            AccountCreated(account_id=account.account_id, email=account.email, role=account.role)
        )
        return account
