"""The repository and the unit of work of profiles, with SQLAlchemy."""

from uuid import UUID

from accounts.core.application.ports import ProfileRepository
from accounts.core.domain.profile import Profile
from accounts.shared.infrastructure.persistence.session import (
    MainAsyncSession,
    SqlAlchemyUnitOfWork,
)


class SqlAlchemyProfileRepository:
    """A `ProfileRepository`."""

    def __init__(self, session: MainAsyncSession) -> None:
        self._session = session

    def add(self, profile: Profile) -> None:
        self._session.add(profile)

    async def get(self, account_id: UUID) -> Profile | None:
        return await self._session.get(Profile, account_id)


class SqlAlchemyCoreUnitOfWork(SqlAlchemyUnitOfWork):
    """A `CoreUnitOfWork`."""

    def __init__(self, session: MainAsyncSession, profiles: ProfileRepository) -> None:
        super().__init__(session)
        self.profiles = profiles
