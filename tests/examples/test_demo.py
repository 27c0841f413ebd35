"""The demo tells its story, and leaves nothing behind."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def told() -> list[str]:
    """What the demo prints, line by line."""
    command = [sys.executable, "-W", "error", "-m", "examples.demo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.strip() for line in done.stdout.splitlines()]


def handled(told: list[str], order: str) -> list[str]:
    """What the handlers said about an order, without the time."""
    return [match[1] for line in told if (match := re.fullmatch(rf"[\d.]+ s +{order} +(.*)", line))]


def test_the_demo_shows_what_was_kept_and_what_was_not(told: list[str]) -> None:
    assert [line for line in told if line.startswith("orders:")] == [
        "orders: 1   outbox: 2",
        "orders: 1   outbox: 2",  # the rollback
        "orders: 1   outbox: 3",
        "orders: 1   outbox: 3",  # the refusal
        "orders: 2   outbox: 5",
    ]
    assert any("field `total` is NaN" in line for line in told)


def test_what_follows_a_refused_record_waits_for_it_in_order(told: list[str]) -> None:
    assert handled(told, "A-1") == [
        "receipt: refused, the mailbox is full",
        "receipt: refused, the mailbox is full",
        "receipt: sent",
        "parcel:  packed",
        "view:    of /orders/A-1",
    ]


def test_another_order_does_not_wait(told: list[str]) -> None:
    sent = [line.partition(" s  ")[2] for line in told if line.endswith("receipt: sent")]
    assert sent == ["B-1  receipt: sent", "A-1  receipt: sent"]


def test_an_outage_is_waited_out_and_counts_as_no_retry(told: list[str]) -> None:
    assert handled(told, "B-1")[-1] == "parcel:  packed"
    assert "parcel:  the warehouse does not answer" in handled(told, "B-1")
    relay = [line for line in told if line.startswith("relay:")]
    assert "degraded" in relay[0]
    assert relay[1:] == ["relay: ok"]
    assert "5  OrderPaid     order B-1  published" in told


def test_everything_is_delivered_in_the_end(told: list[str]) -> None:
    assert told[-5:] == [
        "1  OrderPlaced   order A-1  published after 2 retries",
        "2  OrderPaid     order A-1  published",
        "3  order.viewed  order A-1  published",
        "4  OrderPlaced   order B-1  published",
        "5  OrderPaid     order B-1  published",
    ]
