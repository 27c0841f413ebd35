"""A line in the log for each new account."""

import logging

from postroom import handles

from accounts.account.domain.events import AccountCreated

log = logging.getLogger(__name__)


@handles(AccountCreated, name="log_account")
class LogAccountCreated:
    """Logs the id of the account, and not its email address."""

    async def handle(self, event: AccountCreated) -> None:
        log.info("account %s was created", event.account_id)
