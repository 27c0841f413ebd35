"""The container: which adapter is given for which port."""

from dishka import AsyncContainer, Provider, make_async_container
from postroom import Outbox, auto_discover_handlers
from postroom.integrations.dishka import EventHandlerProvider, OutboxProvider

from accounts.account.infrastructure.provider import AccountProvider
from accounts.core.infrastructure.provider import CoreProvider
from accounts.mapping import start_mappers
from accounts.settings import EventDispatch, Settings
from accounts.shared.infrastructure.in_process import InProcessProvider
from accounts.shared.infrastructure.persistence.provider import PersistenceProvider
from accounts.shared.infrastructure.persistence.session import MainAsyncSession
from accounts.shared.infrastructure.relay import RelayProvider

HANDLERS = (
    "accounts.account.infrastructure.handlers",
    "accounts.core.infrastructure.handlers",
)


def make_container(settings: Settings, *overrides: Provider) -> AsyncContainer:
    """Assemble all providers; what `overrides` provide replaces what is provided here."""
    outbox = start_mappers()
    for package in HANDLERS:
        auto_discover_handlers(package)
    return make_async_container(
        PersistenceProvider(),
        AccountProvider(),
        CoreProvider(),
        EventHandlerProvider(),
        dispatcher_provider(settings.event_dispatch, outbox),
        RelayProvider(),
        *overrides,
        context={Settings: settings, Outbox: outbox},
    )


def dispatcher_provider(dispatch: EventDispatch, outbox: Outbox) -> Provider:
    """Return what provides the `EventDispatcher` of the use cases."""
    if dispatch is EventDispatch.IN_PROCESS:
        return InProcessProvider()
    return OutboxProvider(outbox, session=MainAsyncSession)
