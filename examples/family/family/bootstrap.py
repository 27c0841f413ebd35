"""Wires the application: who gets what, and how long it lives."""

from collections.abc import AsyncIterator

from dishka import AsyncContainer, Provider, Scope, make_async_container, provide
from postroom import OutboxEventPublisher
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker

import family.infrastructure.mapping  # noqa: F401  maps the domain
from family.application.accept_invitation import AcceptFamilyMemberInvitationCommandHandler
from family.application.create_family import CreateFamilyCommandHandler
from family.application.invite_member import InviteFamilyMemberByEmailCommandHandler
from family.application.ports import (
    Clock,
    FamilyRepository,
    InvitationRepository,
    UnitOfWork,
)
from family.application.read_family import FamilyQueryHandler
from family.application.resend_invitation import ResendFamilyMemberInvitationCommandHandler
from family.infrastructure.clock import SystemClock
from family.infrastructure.database import make_engine
from family.infrastructure.outbox import event_publisher, outbox
from family.infrastructure.repositories import (
    SqlAlchemyFamilyRepository,
    SqlAlchemyInvitationRepository,
    SqlAlchemyUnitOfWork,
)
from family.settings import Settings

Sessions = async_sessionmaker[AsyncSession]


class Application(Provider):
    """What lives as long as the process."""

    scope = Scope.APP
    clock = provide(SystemClock, provides=Clock)

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings

    @provide
    async def engine(self) -> AsyncIterator[AsyncEngine]:
        engine = make_engine(self._settings.database)
        yield engine
        await engine.dispose()

    @provide
    def sessions(self, engine: AsyncEngine) -> Sessions:
        sessions = async_sessionmaker(engine, expire_on_commit=False)
        outbox.capture(sessions)  # from here on, saving an aggregate saves its events
        return sessions

    @provide
    def publisher(self, engine: AsyncEngine) -> OutboxEventPublisher:
        url, prefix = self._settings.rabbitmq_url, self._settings.rabbitmq_prefix
        return event_publisher(engine, url, prefix)


class Handlers(Provider):
    """What lives as long as one command: a session, and who works with it."""

    scope = Scope.REQUEST
    unit_of_work = provide(SqlAlchemyUnitOfWork, provides=UnitOfWork)
    families = provide(SqlAlchemyFamilyRepository, provides=FamilyRepository)
    invitations = provide(SqlAlchemyInvitationRepository, provides=InvitationRepository)
    create_family = provide(CreateFamilyCommandHandler)
    invite = provide(InviteFamilyMemberByEmailCommandHandler)
    resend = provide(ResendFamilyMemberInvitationCommandHandler)
    accept = provide(AcceptFamilyMemberInvitationCommandHandler)
    read = provide(FamilyQueryHandler)

    @provide
    async def session(self, sessions: Sessions) -> AsyncIterator[AsyncSession]:
        async with sessions() as session:
            yield session


def bootstrap(settings: Settings) -> AsyncContainer:
    """Make the container; nothing connects before it is asked to."""
    return make_async_container(Application(settings), Handlers())
