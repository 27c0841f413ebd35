"""The one place where ports meet their adapters."""

from dishka import AsyncContainer, Provider, make_async_container

from accounts.account.infrastructure.provider import AccountProvider
from accounts.core.infrastructure.provider import CoreProvider
from accounts.mapping import start_mappers
from accounts.settings import Settings
from accounts.shared.infrastructure.persistence.provider import PersistenceProvider
from accounts.shared.infrastructure.persistence.session import MainAsyncSession
from accounts.shared.infrastructure.relay import RelayProvider
from postroom import Outbox, auto_discover_handlers
from postroom.integrations.dishka import EventHandlerProvider, OutboxProvider

HANDLERS = (
    "accounts.account.infrastructure.handlers",
    "accounts.core.infrastructure.handlers",
)


def make_container(settings: Settings, *overrides: Provider) -> AsyncContainer:
    """Assemble all providers; what `overrides` provide takes the place of what is here."""
    outbox = start_mappers()
    for package in HANDLERS:
        auto_discover_handlers(package)
    return make_async_container(
        PersistenceProvider(),
        AccountProvider(),
        CoreProvider(),
        EventHandlerProvider(),
        OutboxProvider(outbox, session=MainAsyncSession),
        RelayProvider(),
        *overrides,
        context={Settings: settings, Outbox: outbox},
    )
