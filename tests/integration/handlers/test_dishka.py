"""Dishka: handlers and dispatcher at request scope, and every handler that cannot be built."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, NewType

import pytest
from dishka import AsyncContainer, Provider, Scope, make_async_container
from dishka.exceptions import NoFactoryError
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from postroom import (
    ConfigurationError,
    DomainEvent,
    EventDispatcher,
    EventRegistry,
    OutboxEventDispatcher,
)
from postroom.identity import uuid7
from postroom.integrations.dishka import EventHandlerProvider, OutboxProvider, check_handlers
from postroom.publishers.base import DELIVERED
from postroom.publishers.handlers.publisher import HandlersPublisher
from tests.support.claims import claimed
from tests.support.shop import Account, AccountOpened, outbox

MainAsyncSession = NewType("MainAsyncSession", AsyncSession)


class UnitOfWork:
    def __init__(self, session: MainAsyncSession) -> None:
        self.session = session


class Missing:
    """What no provider gives."""


@dataclass(frozen=True, kw_only=True)
class Arrived(DomainEvent):
    pass


class Good:
    """A handler that keeps the unit of work that it got."""

    units: list[UnitOfWork]

    def __init__(self, unit_of_work: UnitOfWork) -> None:
        self.units.append(unit_of_work)
        self.unit_of_work = unit_of_work

    async def handle(self, event: Any) -> None:
        async with self.unit_of_work.session.begin():
            await self.unit_of_work.session.scalars(select(Account))


class AlsoGood(Good):
    pass


class Needy:
    def __init__(self, missing: Missing) -> None: ...


class Choosy:
    def __init__(self, unit_of_work: UnitOfWork) -> None:
        raise OSError("no key")


class Unannotated:
    def __init__(self, something) -> None:  # type: ignore[no-untyped-def]
        ...


class Unreadable:
    def __init__(self, something: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821
        ...


@pytest.fixture
def registry() -> EventRegistry:
    Good.units = []
    return EventRegistry()


@pytest.fixture
def sessions(engine: AsyncEngine) -> Provider:
    async def session() -> AsyncIterator[MainAsyncSession]:
        async with AsyncSession(engine) as opened:
            yield MainAsyncSession(opened)

    provider = Provider(scope=Scope.REQUEST)
    provider.provide(session)
    provider.provide(UnitOfWork)
    return provider


def container_of(*providers: Provider) -> AsyncContainer:
    return make_async_container(*providers, skip_validation=True)


@pytest.mark.requirement("A17")
async def test_a_use_case_gets_a_dispatcher_with_the_session_of_its_request(
    sessions: Provider, engine: AsyncEngine
) -> None:
    container = make_async_container(sessions, OutboxProvider(outbox, session=MainAsyncSession))
    event = AccountOpened(account_id=uuid7(), email="a@b.com")
    async with container() as request:
        dispatcher = await request.get(EventDispatcher)
        assert isinstance(dispatcher, OutboxEventDispatcher)
        assert dispatcher is await request.get(OutboxEventDispatcher)
        session = await request.get(MainAsyncSession)
        await dispatcher.dispatch([event])
        [record] = session.new
        assert record.id == event.event_id
        async with container() as other:
            assert await other.get(EventDispatcher) is not dispatcher
    await container.close()


@pytest.mark.requirement("B8")
async def test_every_registered_handler_is_given_at_request_scope(
    sessions: Provider, registry: EventRegistry
) -> None:
    registry.handles(AccountOpened)(Good)
    registry.handles(Arrived)(Good)
    registry.handles("parcel.sent")(AlsoGood)
    container = make_async_container(sessions, EventHandlerProvider(registry))
    async with container() as first, container() as second:
        assert isinstance(await first.get(Good), Good)
        assert isinstance(await first.get(AlsoGood), AlsoGood)
        assert await first.get(Good) is await first.get(Good)
        assert await first.get(Good) is not await second.get(Good)
    await check_handlers(container, registry)
    with pytest.raises(NoFactoryError):
        await container.get(Good)


@pytest.mark.requirement("A11")
async def test_each_handler_runs_in_a_request_scope_with_its_own_session_and_unit_of_work(
    sessions: Provider, registry: EventRegistry, engine: AsyncEngine
) -> None:
    registry.handles(AccountOpened)(Good)
    registry.handles(AccountOpened)(AlsoGood)
    container = make_async_container(sessions, EventHandlerProvider(registry))
    async with container() as request:  # what is given may be the container of a request
        publisher = HandlersPublisher(request, registry=registry)
        publisher.use(outbox, engine)
        record = claimed(AccountOpened(account_id=uuid7(), email="a@b.com"))
        assert await publisher.publish([record]) == [DELIVERED]
        own = await request.get(UnitOfWork)
    units = [*Good.units, own]
    assert len(set(units)) == len({unit.session for unit in units}) == 3


@pytest.mark.requirement("B8")
async def test_the_check_names_every_handler_that_cannot_be_built_and_why(
    sessions: Provider, registry: EventRegistry
) -> None:
    provider = EventHandlerProvider(registry)
    for handler in (Good, Needy, Choosy):
        registry.handles(AccountOpened)(handler)
    container = container_of(sessions, EventHandlerProvider(registry))
    registry.handles(Arrived)(AlsoGood)  # after the provider was made
    with pytest.raises(ConfigurationError) as caught:
        await check_handlers(container, registry)
    first, *lines = str(caught.value).splitlines()
    assert first == "the container cannot build 3 of the event handlers:"
    needy, choosy, also_good = lines
    assert f"{__name__}.Needy: NoFactoryError: Cannot find factory for (Missing" in needy
    assert f"{__name__}.Choosy: OSError: no key" in choosy
    assert f"{__name__}.AlsoGood: NoFactoryError: Cannot find factory for (AlsoGood" in also_good
    assert provider.factories == []


@pytest.mark.requirement("B8")
def test_the_containers_own_check_names_the_handler(
    sessions: Provider, registry: EventRegistry
) -> None:
    registry.handles(AccountOpened)(Needy)
    with pytest.raises(NoFactoryError, match="Needy"):
        make_async_container(sessions, EventHandlerProvider(registry))


@pytest.mark.requirement("B8")
def test_handlers_whose_arguments_cannot_be_read_are_all_named(registry: EventRegistry) -> None:
    for handler in (Unannotated, Good, Unreadable):
        registry.handles(AccountOpened)(handler)
    with pytest.raises(ConfigurationError) as caught:
        EventHandlerProvider(registry)
    first, unannotated, unreadable = str(caught.value).splitlines()
    assert first == "Dishka cannot read 2 of the event handlers:"
    assert "Unannotated" in unannotated
    assert "do not have type hints: something" in unannotated
    assert "Unreadable" in unreadable
    assert "'Nowhere' is not defined" in unreadable
