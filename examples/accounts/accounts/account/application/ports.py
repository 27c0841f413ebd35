"""What the use cases of accounts need from outside."""

from typing import Protocol
from uuid import UUID

from accounts.account.domain.account import Account
from accounts.account.domain.password import Password
from accounts.shared.application.unit_of_work import UnitOfWork


class AccountRepository(Protocol):
    """All accounts."""

    async def add(self, account: Account) -> None:
        """Raise EmailTakenError if its email address has an account already."""

    async def get(self, account_id: UUID) -> Account | None: ...


class AccountUnitOfWork(UnitOfWork, Protocol):
    """A transaction over accounts."""

    @property
    def accounts(self) -> AccountRepository: ...


class PasswordHasher(Protocol):
    """Makes of a password what may be stored."""

    async def hash(self, password: Password) -> str: ...
