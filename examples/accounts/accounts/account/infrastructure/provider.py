"""The Dishka provider of the Account context."""

from dishka import Provider, Scope, provide

from accounts.account.application.ports import (
    AccountRepository,
    AccountUnitOfWork,
    PasswordHasher,
)
from accounts.account.application.sign_up import SignUpHandler
from accounts.account.infrastructure.argon2_hasher import Argon2PasswordHasher
from accounts.account.infrastructure.persistence.repository import (
    SqlAlchemyAccountRepository,
    SqlAlchemyAccountUnitOfWork,
)


class AccountProvider(Provider):
    """Gives use cases, and an adapter for each port."""

    scope = Scope.REQUEST

    hasher = provide(Argon2PasswordHasher, provides=PasswordHasher, scope=Scope.APP)
    accounts = provide(SqlAlchemyAccountRepository, provides=AccountRepository)
    unit_of_work = provide(SqlAlchemyAccountUnitOfWork, provides=AccountUnitOfWork)
    sign_up = provide(SignUpHandler)
