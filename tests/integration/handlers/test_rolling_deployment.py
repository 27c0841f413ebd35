"""Workers of old and new code side by side: what only the new one knows waits for it."""

from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import DomainEvent, EventRegistry, OutboxRecord, OutboxRelay, Status
from postroom.publishers.handlers.publisher import HandlersPublisher
from tests.support.rows import all_delivered, rows, save, until
from tests.support.shop import outbox
from tests.support.waiting import eventually


@dataclass(frozen=True, kw_only=True)
class Moved(DomainEvent, name="customer.moved", aggregate="customer", key="customer"):
    """As the old code has it."""

    customer: str
    town: str = ""


@dataclass(frozen=True, kw_only=True)
class MovedFar(DomainEvent, name="customer.moved", aggregate="customer", key="customer", version=2):
    """As the new code has it."""

    customer: str
    place: str


@dataclass(frozen=True, kw_only=True)
class Greeted(DomainEvent, name="customer.greeted", aggregate="customer", key="customer"):
    """An event that only the new code has."""

    customer: str


class Worker:
    """A relay with handlers of some events, and what they were given."""

    def __init__(self, engine: AsyncEngine, *known: type[DomainEvent]) -> None:
        self.got: list[Any] = []
        registry = EventRegistry()
        for each in known:
            registry.handles(each, name=each.__name__)(Worker)
        registry.upcasts("customer.moved", version=1)(lambda old: {**old, "place": old["town"]})
        publisher = HandlersPublisher(factory=lambda _: self, registry=registry)
        self.relay = OutboxRelay(outbox, engine, publisher)

    def handle(self, event: Any) -> None:
        self.got.append(event)


def saved(event_type: str, customer: str, *, version: int = 1, **payload: str) -> OutboxRecord:
    """Make a record as an application of old or new code saves it."""
    return OutboxRecord(
        event_type=event_type,
        event_version=version,
        aggregate_type="customer",
        aggregate_id=customer,
        payload={"customer": customer, **payload},
    )


def records() -> list[OutboxRecord]:
    return [
        saved("customer.moved", "ann", version=2, place="Rome"),
        saved("customer.moved", "ann", town="Bath"),
        saved("customer.greeted", "bob"),
        saved("customer.moved", "bob", town="Bath"),
        saved("customer.moved", "cleo", town="Bath"),
    ]


@pytest.mark.requirement("E12")
async def test_what_only_newer_code_knows_waits_and_leaves_at_once_when_that_runs(
    database: AsyncEngine,
) -> None:
    await save(database, *records())
    old, new = Worker(database, Moved), Worker(database, MovedFar, Greeted)

    tally = await old.relay.run_once()

    assert (tally.delivered, tally.postponed, tally.failed) == (1, 2, 0)
    assert [event.customer for event in old.got] == ["cleo"]
    found = await rows(database)
    assert [(row.status, row.retry_count) for row in found[:4]] == [(Status.PENDING, 0)] * 4
    assert "no worker knows customer.moved v2" in str(found[0].error_message)
    assert "no worker knows customer.greeted v1" in str(found[2].error_message)

    await new.relay.run_once()

    assert all_delivered(await rows(database))
    of_ann = [event.place for event in new.got if event.customer == "ann"]
    of_bob = [type(event) for event in new.got if event.customer == "bob"]
    assert (of_ann, of_bob) == (["Rome", "Bath"], [Greeted, MovedFar])


@pytest.mark.requirement("E12")
async def test_a_worker_of_old_code_names_what_it_does_not_know_and_hands_it_over(
    database: AsyncEngine,
) -> None:
    old, new = Worker(database, Moved), Worker(database, MovedFar, Greeted)
    async with old.relay.running():
        await save(database, *records())
        await eventually(lambda: len(old.relay.health.waiting_routes) == 2)
        names = {each.route for each in old.relay.health.waiting_routes}
        assert names == {"handlers of customer.moved v2", "handlers of customer.greeted v1"}
        async with new.relay.running():
            await old.relay.stop()
            found = await until(database, all_delivered)
    assert {row.retry_count for row in found} == {0}


async def test_a_payload_of_a_known_version_that_does_not_fit_still_fails(
    database: AsyncEngine,
) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Recounted(DomainEvent, name="customer.moved", aggregate="customer", key="customer"):
        customer: str
        times: int

    await save(database, saved("customer.moved", "ann"))
    tally = await Worker(database, Recounted).relay.run_once()
    assert (tally.failed, tally.postponed) == (1, 0)
