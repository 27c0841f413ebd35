"""The ports of the Core context."""

from typing import Protocol
from uuid import UUID

from accounts.core.domain.profile import Profile
from accounts.shared.application.unit_of_work import UnitOfWork


class ProfileRepository(Protocol):
    """The port of the profiles in the database."""

    def add(self, profile: Profile) -> None: ...

    async def get(self, account_id: UUID) -> Profile | None: ...


class CoreUnitOfWork(UnitOfWork, Protocol):
    """A transaction over profiles."""

    @property
    def profiles(self) -> ProfileRepository: ...
