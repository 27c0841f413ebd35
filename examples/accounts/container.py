"""The one place where ports meet their adapters."""

from dishka import AsyncContainer, Provider, make_async_container

from examples.accounts.account.infrastructure.provider import AccountProvider
from examples.accounts.core.infrastructure.provider import CoreProvider
from examples.accounts.mapping import start_mappers
from examples.accounts.settings import Settings
from examples.accounts.shared.infrastructure.persistence.provider import PersistenceProvider
from examples.accounts.shared.infrastructure.persistence.session import MainAsyncSession
from examples.accounts.shared.infrastructure.relay import RelayProvider
from postroom import Outbox, auto_discover_handlers
from postroom.integrations.dishka import EventHandlerProvider, OutboxProvider

HANDLERS = (
    "examples.accounts.account.infrastructure.handlers",
    "examples.accounts.core.infrastructure.handlers",
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
