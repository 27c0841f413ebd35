"""The ports of the Account context."""

from typing import Protocol
from uuid import UUID

from accounts.account.domain.account import Account
from accounts.account.domain.password import Password
from accounts.shared.application.unit_of_work import UnitOfWork


class AccountRepository(Protocol):
    """The port of the accounts in the database."""

    async def add(self, account: Account) -> None:
        """Add an account. Raises EmailTakenError if its email address has one."""

    async def get(self, account_id: UUID) -> Account | None: ...


class AccountUnitOfWork(UnitOfWork, Protocol):
    """A transaction over accounts."""

    @property
    def accounts(self) -> AccountRepository: ...


class PasswordHasher(Protocol):
    """Returns the hash of a password."""

    async def hash(self, password: Password) -> str: ...
