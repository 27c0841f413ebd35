"""The table of profiles, and the mapping of `Profile` to it."""

from sqlalchemy import Column, String, Table, Uuid

from accounts.core.domain.profile import Profile
from accounts.shared.infrastructure.persistence.registry import mapper_registry

profiles = Table(
    "profiles",
    mapper_registry.metadata,
    # No foreign key: accounts belong to another context, which may get a database of its own.
    Column("account_id", Uuid, primary_key=True),
    Column("display_name", String(320), nullable=False),
)


def map_profiles_table() -> None:
    mapper_registry.map_imperatively(Profile, profiles)
