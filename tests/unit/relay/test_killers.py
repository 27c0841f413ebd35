"""Several lives of a process, one of whose records kills it: exactly that record has to fail."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.relay.leases import HeldLeases
from postroom.relay.poison import ONE_BY_ONE_AFTER, Poison
from postroom.store.base import HeldRecord, Lease
from postroom.store.key_order import KeyOrder
from tests.unit.relay.records import claim, record

pytestmark = pytest.mark.no_cover  # others cover the same, for less time

MOST_DEATHS = 50


class Outbox:
    """What survives a process: the records that are not delivered, and the leases."""

    def __init__(
        self, partitions: dict[int, int], *, keys: int, max_in_flight: int, max_crashes: int = 3
    ) -> None:
        self.rows = {
            position: record(position, f"{partition} {position % keys}", partition=partition).record
            for position, partition in partitions.items()
        }
        self.leases = {each: Lease(partition=each, token=1) for each in partitions.values()}
        self.killers: set[int] = set()
        self.failed: list[int] = []
        self.deaths = 0
        self.max_in_flight = max_in_flight
        self.max_crashes = max_crashes

    def run(self, choice: "Choice") -> None:
        """Start a process again and again, until one has delivered everything."""
        while self.rows:
            assert self.deaths < MOST_DEATHS, "the record that kills is not found"
            Process(self, choice).live()

    def update(self, partition: int, **values: int | None) -> None:
        self.leases[partition] = replace(self.leases[partition], **values)  # type: ignore[arg-type]


Choice = Callable[[Sequence[HeldRecord]], int]
"""Returns which of the records in flight ends next."""


def by_chance(seed: int) -> Choice:
    """Return a choice by chance, in which an older delivery is more likely to end."""
    chance = random.Random(seed)
    return lambda in_flight: int(len(in_flight) * chance.random() ** 2)


class Process:
    """A relay that does what its poison says, until a record kills it."""

    def __init__(self, outbox: Outbox, choice: Choice) -> None:
        self.outbox = outbox
        self.choice = choice
        self.leases = HeldLeases(30.0)
        self.order = KeyOrder()
        self.poison = Poison(outbox.max_in_flight, outbox.max_crashes)
        self.in_flight: list[HeldRecord] = []

    @property
    def room(self) -> int:
        return self.outbox.max_in_flight - len(self.in_flight)

    def live(self) -> None:
        """Deliver everything, or die."""
        rows = [
            HeldRecord(row, token=self.outbox.leases[row.partition].token)
            for _, row in sorted(self.outbox.rows.items())
        ]
        self.order.add(claim(*rows))
        while self.outbox.rows:
            self.poll()
            self.send_suspects()
            self.send()
            if self.in_flight and not self.end_a_delivery():
                return

    def poll(self) -> None:
        held = {row.partition for row in self.outbox.rows.values()}
        self.leases.polled([self.outbox.leases[each] for each in held], asked_at=0.0)
        self.poison.look_at(self.leases)

    def send_suspects(self) -> None:
        for partition in self.poison.survived(self.order):
            self.outbox.update(partition, crash_count=0, suspect=None, suspect_crashes=0)
        chosen = self.poison.choose(self.order, self.leases, self.room)
        for each, begun in chosen.items():
            self.order.sent(each)
            if self.poison.kills(begun):
                self.outbox.failed.append(each.position)
                self.done(each)
            else:
                self.outbox.update(each.partition, suspect=each.position, suspect_crashes=begun)
                self.poison.sent(each, begun)
                self.in_flight.append(each)

    def send(self) -> None:
        self.in_flight += self.order.take(
            self.room, lambda each: self.poison.may_send(each.partition)
        )

    def end_a_delivery(self) -> bool:
        """End a delivery; return whether the process survives that."""
        ended = self.in_flight.pop(self.choice(self.in_flight))
        if ended.position in self.outbox.killers:
            self.die()
            return False
        self.done(ended)
        return True

    def done(self, ended: HeldRecord) -> None:
        """Settle a record, delivered or failed; the next one of its key may be sent."""
        self.order.answered(ended, delivered=True)
        self.order.settled(ended)
        del self.outbox.rows[ended.position]

    def die(self) -> None:
        """Die: each lease that was held ends by itself, which counts as a crash."""
        self.outbox.deaths += 1
        for partition in self.leases.by_partition:
            lease = self.outbox.leases[partition]
            self.outbox.update(partition, token=lease.token + 1, crash_count=lease.crash_count + 1)


@pytest.mark.requirement("E1")
@given(
    killer=st.integers(0, 199),
    partitions=st.integers(1, 12),
    keys=st.integers(1, 8) | st.just(200),
    max_in_flight=st.integers(1, 8),
    max_crashes=st.integers(1, 4),
    seed=st.integers(0, 2**32),
)
def test_exactly_the_killer_fails_wherever_it_is(
    killer: int, partitions: int, keys: int, max_in_flight: int, max_crashes: int, seed: int
) -> None:
    rows = {position: position % partitions for position in range(200)}
    outbox = Outbox(rows, keys=keys, max_in_flight=max_in_flight, max_crashes=max_crashes)
    outbox.killers.add(killer)
    outbox.run(by_chance(seed))
    assert outbox.failed == [killer]
    assert outbox.deaths == ONE_BY_ONE_AFTER + max_crashes


@given(
    killers=st.sets(st.integers(0, 99), min_size=2, max_size=3),
    partitions=st.integers(1, 6),
    seed=st.integers(0, 2**32),
)
def test_of_several_killers_each_fails_and_nothing_else(
    killers: set[int], partitions: int, seed: int
) -> None:
    outbox = Outbox({each: each % partitions for each in range(100)}, keys=100, max_in_flight=8)
    outbox.killers |= killers
    outbox.run(by_chance(seed))
    assert sorted(outbox.failed) == sorted(killers)


def test_a_record_is_not_blamed_for_the_killer_of_another_partition() -> None:
    outbox = Outbox(
        {each: each % 3 for each in range(100)}, keys=100, max_in_flight=8, max_crashes=1
    )
    outbox.killers |= {15, 79}
    outbox.run(by_chance(2970))
    assert sorted(outbox.failed) == [15, 79]
