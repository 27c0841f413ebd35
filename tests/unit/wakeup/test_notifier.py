"""What a notification says, and to whom."""

import pytest

from postroom.wakeup.notifier import partitions_in, payload_of


@pytest.mark.parametrize("table", ["outbox", "auth.outbox_events", "my outbox 5"])
def test_the_partitions_come_back(table: str) -> None:
    assert partitions_in(payload_of(table, {63, 0, 7}), table) == {0, 7, 63}


def test_a_commit_in_another_outbox_is_of_no_interest() -> None:
    assert partitions_in(payload_of("other", {1}), "outbox") == set()


@pytest.mark.parametrize("payload", ["", "5", "outbox", "outbox ", "outbox 1,x", "outbox -1", "{}"])
def test_what_anybody_else_sends_may_mean_any_partition(payload: str) -> None:
    assert partitions_in(payload, "outbox") is None
