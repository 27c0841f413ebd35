"""The events of accounts. Other contexts handle them, so they hold no secret."""

from dataclasses import dataclass
from uuid import UUID

from postroom import DomainEvent

from accounts.account.domain.role import AccountRole


@dataclass(frozen=True, kw_only=True)
class AccountCreated(DomainEvent, aggregate="account", key="account_id"):
    account_id: UUID
    email: str
    role: AccountRole
