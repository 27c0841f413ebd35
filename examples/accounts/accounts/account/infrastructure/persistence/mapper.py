"""The table of accounts, and the mapping of `Account` to it."""

from sqlalchemy import Column, Enum, String, Table, Uuid

from accounts.account.domain.account import Account
from accounts.account.domain.role import AccountRole
from accounts.shared.infrastructure.persistence.registry import mapper_registry

role = Enum(AccountRole, native_enum=False, length=20, values_callable=list)

accounts = Table(
    "accounts",
    mapper_registry.metadata,
    Column("account_id", Uuid, primary_key=True),
    Column("email", String(320), nullable=False, unique=True),
    Column("password_hash", String(255), nullable=False),
    Column("role", role, nullable=False),
)


def map_accounts_table() -> None:
    mapper_registry.map_imperatively(Account, accounts)
