"""The repository and the unit of work of accounts, with SQLAlchemy."""

from uuid import UUID

from sqlalchemy.exc import IntegrityError

from accounts.account.application.ports import AccountRepository
from accounts.account.domain.account import Account
from accounts.account.domain.errors import EmailTakenError
from accounts.shared.infrastructure.persistence.session import (
    MainAsyncSession,
    SqlAlchemyUnitOfWork,
)

EMAIL_IS_UNIQUE = ("uq_accounts_email", "accounts.email")
"""The constraint, as PostgreSQL and as SQLite name it."""


class SqlAlchemyAccountRepository:
    """An `AccountRepository`."""

    def __init__(self, session: MainAsyncSession) -> None:
        self._session = session

    async def add(self, account: Account) -> None:
        self._session.add(account)
        try:
            # Not at the commit: of two sign-ups at the same moment, one is refused here.
            await self._session.flush()
        except IntegrityError as error:
            if not any(name in str(error.orig) for name in EMAIL_IS_UNIQUE):
                raise
            raise EmailTakenError(account.email) from error

    async def get(self, account_id: UUID) -> Account | None:
        return await self._session.get(Account, account_id)


class SqlAlchemyAccountUnitOfWork(SqlAlchemyUnitOfWork):
    """An `AccountUnitOfWork`."""

    def __init__(self, session: MainAsyncSession, accounts: AccountRepository) -> None:
        super().__init__(session)
        self.accounts = accounts
