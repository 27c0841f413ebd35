"""What happens to accounts. Other contexts may rely on it, so it holds no secret."""

from dataclasses import dataclass
from uuid import UUID

from accounts.account.domain.role import AccountRole
from postroom import DomainEvent


@dataclass(frozen=True, kw_only=True)
class AccountCreated(DomainEvent, aggregate="account", key="account_id"):
    account_id: UUID
    email: str
    role: AccountRole
