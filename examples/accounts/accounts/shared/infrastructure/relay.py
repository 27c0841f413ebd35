"""The relay: delivers the records of the outbox to the event handlers."""

from datetime import timedelta

from dishka import AsyncContainer, Provider, Scope, from_context, provide
from postroom import HandlersPublisher, Outbox, OutboxRelay
from sqlalchemy.ext.asyncio import AsyncEngine

from accounts.settings import Settings
from accounts.shared.infrastructure.persistence.session import MainAsyncSession


class RelayProvider(Provider):
    """Gives the relay of the application, which its lifespan runs."""

    scope = Scope.APP
    outbox = from_context(Outbox)

    @provide
    def relay(
        self, outbox: Outbox, engine: AsyncEngine, container: AsyncContainer, settings: Settings
    ) -> OutboxRelay:
        return OutboxRelay(
            outbox,
            engine,
            # With the session, a handler's receipt is committed together with its effect.
            HandlersPublisher(container, session=MainAsyncSession),
            poll_interval=timedelta(seconds=settings.outbox_poll_interval),
            lease=timedelta(seconds=settings.outbox_lease),
        )
