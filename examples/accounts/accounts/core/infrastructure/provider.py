"""The Dishka provider of the Core context."""

from dishka import Provider, Scope, provide

from accounts.core.application.ports import CoreUnitOfWork, ProfileRepository
from accounts.core.infrastructure.persistence.repository import (
    SqlAlchemyCoreUnitOfWork,
    SqlAlchemyProfileRepository,
)


class CoreProvider(Provider):
    """Gives an adapter for each port."""

    scope = Scope.REQUEST

    profiles = provide(SqlAlchemyProfileRepository, provides=ProfileRepository)
    unit_of_work = provide(SqlAlchemyCoreUnitOfWork, provides=CoreUnitOfWork)
