"""The commands that look: what they print about an outbox, in a pipe and as JSON."""

import json

import pytest

from tests.support.in_process import InProcess
from tests.support.shop_with_failures import DECLINED, Shop


def columns(line: str) -> list[str]:
    return [each.strip() for each in line.split("  ") if each.strip()]


# -- status


def test_the_status_of_an_outbox_without_records_is_healthy(empty_shop: Shop) -> None:
    lines = empty_shop.lines("status")
    assert lines[-1] == "healthy"
    assert "pending     0" in lines
    assert empty_shop.json("status")["healthy"] is True


@pytest.mark.requirement("E6")
def test_the_status_says_what_is_wrong_and_ends_with_1(shop: Shop) -> None:
    lines = shop.lines("status", code=1)
    assert lines[0].startswith("outbox      table `outbox` of database `")
    assert "pending     3 (oldest " in lines[1]
    assert lines[1].endswith("3 behind another record of their key")
    assert "failed      3" in lines
    assert "blocked     1 key" in lines
    assert "workers     none" in lines
    assert "problem  3 records failed." in lines
    assert lines[-1] == "see      postroom failures, postroom blocked"
    assert columns(next(line for line in lines if line.startswith("mail.sent"))) == [
        *("mail.sent", "0", "-", "2")
    ]


def test_the_status_as_json_has_the_same(shop: Shop) -> None:
    document = shop.json("status", code=1)
    assert (document["healthy"], document["pending"], document["failed"]) == (False, 3, 3)
    assert (document["parked"], document["blocked_keys"]) == (3, 1)
    assert document["problems"][0] == "3 records failed."  # later, that a key is blocked, too
    assert document["oldest_pending"] > 0
    by_type = {each["event_type"]: each for each in document["event_types"]}
    assert by_type["order.shipped"]["pending"] == 3


# -- list


def test_records_are_listed_with_the_newest_first(shop: Shop) -> None:
    header, *lines = shop.lines("list")
    assert header.split() == [
        *("position", "age", "event", "type", "key", "state", "attempts", "error")
    ]
    assert [columns(line)[0] for line in lines] == [str(number) for number in range(9, 0, -1)]
    assert columns(lines[0])[2:] == ["mail.sent", "-", "failed", "1", "mailbox 23 is full"]
    assert columns(lines[-1])[2:] == ["order.placed", "order/7", "published", "0", "-"]


@pytest.mark.parametrize(
    ("words", "positions"),
    [
        (("--state", "failed"), [9, 8, 2]),
        (("--state", "failed", "--oldest-first"), [2, 8, 9]),
        (("--state", "parked", "--state", "failed"), [9, 8, 5, 4, 3, 2]),
        (("--state", "pending"), [5, 4, 3]),
        (("--type", "order.*", "--state", "published"), [7, 6, 1]),
        (("--key", "order/8"), [7, 6]),
        (("--error", "CARD expired"), [2]),
        (("--older-than", "1h"), []),
        (("--younger-than", "1h", "--limit", "2"), [9, 8]),
        (("--after", "3"), [2, 1]),
        (("--since", "2020-01-01T00:00:00Z", "--until", "2020-01-02"), []),
    ],
)
def test_records_are_listed_by_a_filter(
    shop: Shop, words: tuple[str, ...], positions: list[int]
) -> None:
    document = shop.json("list", *words)
    assert [each["position"] for each in document["records"]] == positions


def test_a_page_of_a_list_says_where_the_next_begins(shop: Shop) -> None:
    first = shop.json("list", "--limit", "4")
    assert [each["position"] for each in first["records"]] == [9, 8, 7, 6]
    second = shop.json("list", "--limit", "5", "--after", str(first["cursor"]))
    assert [each["position"] for each in second["records"]] == [5, 4, 3, 2, 1]


# -- show


@pytest.mark.requirement("E6", "E10")
def test_a_record_is_shown_with_its_refusals_and_without_its_secrets(shop: Shop) -> None:
    document = shop.json("show", "2")
    assert document["payload"] == {"total": 99, "password": "[redacted]"}
    assert (document["state"], document["key"], document["retry_count"]) == (
        "failed",
        "order/7",
        10,
    )
    assert [each["reason"] for each in document["attempts"]] == [DECLINED] * 10
    assert [each["verdict"] for each in document["attempts"]] == ["retry"] * 9 + ["failed"]
    assert document["wait"]["reason"] == "operator"
    assert shop.json("show", document["id"]) == shop.json("show", "2")
    lines = shop.lines("show", "2")
    assert f"record     order.paid {document['id']}" in lines
    assert "next       postroom retry 2, or postroom skip 2" in lines
    assert '  "password": "[redacted]"' in lines
    assert [columns(line)[-1] for line in lines[-10:]] == [DECLINED] * 10


def test_a_record_says_which_record_of_its_key_it_waits_for(shop: Shop) -> None:
    document = shop.json("show", "4")
    assert (document["state"], document["wait"]["reason"]) == ("parked", "blocker")
    assert document["wait"]["blocker"]["position"] == 2
    [line] = [line for line in shop.lines("show", "4") if line.startswith("waits for")]
    assert "order.paid" in line
    assert DECLINED in line


def test_what_is_not_there_ends_with_1(shop: Shop) -> None:
    for words in (("show", "99999"), ("show", "nonsense"), ("events", "order.lost")):
        assert repr(words[1]) in shop(*words).error_line(1)


# -- why, blocked


@pytest.mark.requirement("E6")
def test_a_key_is_explained_with_the_commands_that_continue_it(shop: Shop) -> None:
    record = shop.json("show", "2")["id"]
    first, second = shop.lines("why", "order/7")
    for part in ("order/7", record, DECLINED):
        assert part in first
    assert second == "To continue: postroom retry 2, or postroom skip 2. Details: postroom show 2"
    document = shop.json("why", "order/7")
    assert (document["key"], document["waiting"]) == ("order/7", 3)
    assert document["blocked"]["blocker"]["position"] == 2


def test_a_key_that_waits_for_nothing_is_said_to(shop: Shop) -> None:
    [line] = shop.lines("why", "order/8")
    assert line.startswith("order/8 ")


def test_blocked_keys_are_listed(shop: Shop) -> None:
    header, line = shop.lines("blocked")
    assert header.split()[:2] == ["key", "waiting"]
    key, waiting, _, by, state, next_try, error = columns(line)
    assert (key, waiting, by, state) == ("order/7", "3", "2", "failed")
    assert (next_try, error) == ("-", DECLINED)
    document = shop.json("blocked")
    assert (document["total"], document["keys"][0]["key"]) == (1, "order/7")


# -- failures, workers


def test_failures_are_grouped_by_kind_of_error(shop: Shop) -> None:
    _, mails, payments = shop.lines("failures")
    assert columns(mails)[:3] == ["1", "2", "mail.sent"]
    assert columns(mails)[-1] == "mailbox <number> is full"
    assert columns(payments)[:3] == ["2", "1", "order.paid"]
    assert columns(payments)[-1] == DECLINED
    document = shop.json("failures")
    assert document["total"] == 3
    assert [each["count"] for each in document["groups"]] == [2, 1]


def test_without_failures_and_workers_the_commands_say_so(empty_shop: Shop) -> None:
    assert empty_shop.lines("failures") == ["no record has failed"]
    assert empty_shop.lines("workers") == ["no worker is running"]
    assert empty_shop.json("workers") == {"workers": []}


# -- events


EVENTS_MODULE = """
from dataclasses import dataclass
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine
from postroom import (
    DomainEvent, EventRegistry, HandlersPublisher, Outbox, OutboxRecord, OutboxRelay
)

events = EventRegistry()

@dataclass(frozen=True, kw_only=True)
class OrderPaid(DomainEvent, name="order.paid", version=2):
    total: int

@events.upcasts(OrderPaid, version=1)
def add_total(payload):
    return {**payload, "total": 0}

@events.handles(OrderPaid)
class SendReceipt:
    async def handle(self, event: OrderPaid) -> None: ...

engine = create_async_engine("sqlite+aiosqlite:///shop.db")
outbox = Outbox(MetaData(), events=events, record=type("ShopRecord", (OutboxRecord,), {}))
relay = OutboxRelay(outbox, engine, HandlersPublisher())
"""


def test_event_types_of_the_code_have_versions_handlers_and_a_schema(
    shop_module: InProcess,
) -> None:
    shop_module.write("events_module.py", EVENTS_MODULE)
    listed = shop_module("events", "--relay", "events_module:relay")
    assert listed.code == 0, listed.err
    [line] = [line for line in listed.out.splitlines() if line.startswith("order.paid")]
    name, version, is_seen, event_class, handlers = columns(line)
    assert (name, version, is_seen) == ("order.paid", "2 (1)", "no")
    assert (event_class, handlers) == ("events_module.OrderPaid", "events_module.SendReceipt")
    one = shop_module("events", "order.paid", "--relay", "events_module:relay", "--json")
    [document] = json.loads(one.out)["event_types"]
    assert document["schema"]["properties"]["total"] == {"type": "integer"}
    text = shop_module("events", "order.paid", "--relay", "events_module:relay").out
    assert '"total"' in text


def test_event_types_of_the_records_are_listed_without_code(shop: Shop) -> None:
    listed = [columns(line) for line in shop.lines("events")]  # with those of this process
    names = ["mail.sent", "order.paid", "order.placed", "order.shipped"]
    assert [each[0] for each in listed if each[2] == "yes"] == names
    assert ["mail.sent", "-", "yes", "-", "-"] in listed
