"""Which status may follow which, against a table written by hand."""

from collections.abc import Mapping
from enum import StrEnum
from itertools import product
from typing import TypeVar

import pytest

from messaging.errors import UnprocessableError
from messaging.status import (
    GROUP_MESSAGE,
    SCHEDULED_MESSAGE,
    GroupMessageStatus,
    ScheduledMessageStatus,
    check_transition,
)

OF_GROUP_MESSAGES = {
    ("draft", "queued"),
    ("draft", "cancelled"),
    ("queued", "processing"),
    ("queued", "cancelled"),
    ("processing", "completed"),
    ("processing", "failed"),
    ("failed", "queued"),
    ("failed", "cancelled"),
}
OF_SCHEDULED_MESSAGES = {
    ("pending", "paused"),
    ("pending", "processing"),
    ("pending", "cancelled"),
    ("paused", "pending"),
    ("paused", "cancelled"),
    ("processing", "pending"),
    ("processing", "completed"),
    ("processing", "failed"),
    ("failed", "pending"),
    ("failed", "cancelled"),
}


Status = TypeVar("Status", bound=StrEnum)


def may(allowed: Mapping[Status, frozenset[Status]], pair: tuple[Status, Status]) -> bool:
    try:
        check_transition(allowed, *pair)
    except UnprocessableError:
        return False
    return True


@pytest.mark.parametrize("pair", [*product(GroupMessageStatus, repeat=2)])
def test_the_steps_of_group_messages(pair: tuple[GroupMessageStatus, GroupMessageStatus]) -> None:
    assert may(GROUP_MESSAGE, pair) == (pair in OF_GROUP_MESSAGES)


@pytest.mark.parametrize("pair", [*product(ScheduledMessageStatus, repeat=2)])
def test_the_steps_of_scheduled_messages(
    pair: tuple[ScheduledMessageStatus, ScheduledMessageStatus],
) -> None:
    assert may(SCHEDULED_MESSAGE, pair) == (pair in OF_SCHEDULED_MESSAGES)


@pytest.mark.parametrize(
    ("old", "reason"),
    [
        (
            "queued",
            "a message that is queued cannot become draft: it can become cancelled or processing",
        ),
        ("completed", "a message that is completed cannot become draft: completed is final"),
    ],
)
def test_who_is_refused_is_told_what_can_be_instead(old: str, reason: str) -> None:
    with pytest.raises(UnprocessableError) as refused:
        check_transition(GROUP_MESSAGE, GroupMessageStatus(old), GroupMessageStatus.DRAFT)
    assert (refused.value.field, str(refused.value)) == ("status", reason)
