"""The table of profiles, and how a profile gets into it."""

from sqlalchemy import Column, String, Table, Uuid

from accounts.core.domain.profile import Profile
from accounts.shared.infrastructure.persistence.registry import mapper_registry

profiles = Table(
    "profiles",
    mapper_registry.metadata,
    # No foreign key: the account is of another context, which may move to a database of its own.
    Column("account_id", Uuid, primary_key=True),
    Column("display_name", String(320), nullable=False),
)


def map_profiles_table() -> None:
    mapper_registry.map_imperatively(Profile, profiles)
