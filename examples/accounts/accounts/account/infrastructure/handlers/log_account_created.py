"""A line in the log for each new account."""

import logging

from postroom import handles

from accounts.account.domain.events import AccountCreated

log = logging.getLogger(__name__)


@handles(AccountCreated, name="log_account")
class LogAccountCreated:
    """Names the account by its id: a log is no place for addresses."""

    async def handle(self, event: AccountCreated) -> None:
        log.info("account %s was created", event.account_id)
