"""A line in the log for each new account."""

import logging

from accounts.account.domain.events import AccountCreated
from postroom import handles

log = logging.getLogger(__name__)


@handles(AccountCreated)
class LogAccountCreated:
    """Names the account by its id: a log is no place for addresses."""

    async def handle(self, event: AccountCreated) -> None:
        log.info("account %s was created", event.account_id)
