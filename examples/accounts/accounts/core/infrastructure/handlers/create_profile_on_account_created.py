"""A profile for each new account."""

from postroom import handles

from accounts.account.domain.events import AccountCreated
from accounts.core.application.ports import CoreUnitOfWork
from accounts.core.domain.profile import Profile


@handles(AccountCreated, name="create_profile")
class CreateProfileOnAccountCreated:
    """Creates the profile in a transaction of its own, some time after the account's."""

    def __init__(self, unit_of_work: CoreUnitOfWork) -> None:
        self._unit_of_work = unit_of_work

    async def handle(self, event: AccountCreated) -> None:
        self._unit_of_work.profiles.add(Profile.for_account(event.account_id, event.email))
        await self._unit_of_work.commit()
