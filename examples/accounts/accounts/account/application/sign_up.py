"""The use case "sign up"."""

from dataclasses import dataclass

from postroom import EventDispatcher

from accounts.account.application.ports import AccountUnitOfWork, PasswordHasher
from accounts.account.domain.account import Account
from accounts.account.domain.password import Password


@dataclass(frozen=True, slots=True, kw_only=True)
class SignUp:
    """The command to create an account."""

    email: str
    password: Password


class SignUpHandler:
    """Creates an account and dispatches its events."""

    def __init__(
        self,
        unit_of_work: AccountUnitOfWork,
        password_hasher: PasswordHasher,
        event_dispatcher: EventDispatcher,
    ) -> None:
        self._unit_of_work = unit_of_work
        self._password_hasher = password_hasher
        self._event_dispatcher = event_dispatcher

    async def handle(self, command: SignUp) -> Account:
        # Hashing is slow, so it comes before the transaction.
        password_hash = await self._password_hasher.hash(command.password)
        account = Account.sign_up(command.email, password_hash)
        await self._unit_of_work.accounts.add(account)
        # Before the commit, so that the account and its events are saved in one transaction.
        await self._event_dispatcher.dispatch(account.collect_events())
        await self._unit_of_work.commit()
        return account
