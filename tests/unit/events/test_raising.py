"""What an aggregate refuses to raise."""

from dataclasses import dataclass
from typing import Any

import pytest

from postroom import AggregateRoot, CaptureError, DomainEvent, EventDefinitionError


@dataclass(frozen=True, kw_only=True)
class DoorOpened(DomainEvent):
    pass


class Door(AggregateRoot):
    pass


def test_an_event_is_raised_once() -> None:
    door, event = Door(), DoorOpened()
    door.raise_event(event)
    with pytest.raises(CaptureError, match=rf"Door has raised .*{event.event_id}.*Make a new one"):
        door.raise_event(event)
    assert door.collect_events() == [event]
    door.raise_event(event)
    assert door.domain_events == (event,)


@pytest.mark.parametrize("wrong", [5, None, "DoorOpened", {"event_type": "x"}, DoorOpened])
def test_what_is_no_event_is_refused_when_it_is_raised(wrong: Any) -> None:
    door = Door()
    with pytest.raises(EventDefinitionError, match=r"is not an event.*DomainEvent"):
        door.raise_event(wrong)
    assert door.domain_events == ()


def test_ten_thousand_events_of_one_aggregate_are_no_problem() -> None:
    door = Door()
    events = [DoorOpened() for _ in range(10_000)]
    for event in events:
        door.raise_event(event)
    assert door.collect_events() == events
