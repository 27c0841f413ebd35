"""The commands that change an outbox: what they show, ask and do; on PostgreSQL and SQLite."""

import asyncio

import pytest

from postroom.store.store import Store
from tests.support.shop import outbox
from tests.support.shop_with_failures import Shop, engine_of

pytestmark = pytest.mark.requirement("E6", "E16")


def states(shop: Shop) -> dict[int, str]:
    """Give the state of each record."""
    return {each["position"]: each["state"] for each in shop.json("list")["records"]}


def actions(shop: Shop) -> list[tuple[str, str, int]]:
    """Give the audit, the oldest first."""
    return [(each["action"], each["target"], each["records"]) for each in shop.json("audit")][::-1]


def test_a_retry_says_what_it_is_about_and_what_happens_to_the_order(shop: Shop) -> None:
    what, order, done, _ = shop.lines("retry", "2", "--yes")
    assert what == "To retry: 1 order.paid record of 1 key; 3 records wait behind it."
    assert order.startswith("Order holds")
    assert done == "Retried 1 record."
    assert states(shop)[2] == "waiting"


def test_a_dry_run_changes_nothing(shop: Shop) -> None:
    before = states(shop)
    for words in (("retry", "2"), ("skip", "2"), ("discard", "2"), ("replay", "1"), ("pause",)):
        assert shop.lines(*words, "--dry-run")[-1] == "Nothing was changed."
    assert shop.json("failures", "discard", "1", "--dry-run") == {
        "action": "discard",
        "dry_run": True,
        "chosen": 2,
        "changed": 0,
        "types": {"mail.sent": 2},
        "keys": 0,
        "waiting_behind": 0,
    }
    assert states(shop) == before
    assert actions(shop) == []


def test_without_a_terminal_nothing_is_changed_unless_yes_is_given(shop: Shop) -> None:
    before = states(shop)
    for words in (("retry", "2"), ("pause",), ("failures", "retry", "1")):
        ended = shop(*words)
        assert ended.code == 2
        assert "Give --yes, or --dry-run" in ended.err
    assert states(shop) == before


def test_read_only_refuses_every_change(shop: Shop) -> None:
    changes = (
        *(("retry", "2"), ("skip", "2"), ("discard", "2"), ("replay", "1"), ("pause",)),
        *(("resume",), ("purge", "--older-than", "1d"), ("failures", "retry", "1")),
        ("workers", "drain", "web1:42"),
    )
    for words in changes:
        assert "--read-only" in shop("--read-only", *words, "--yes").error_line(2)
    assert shop("--read-only", "audit").code == 0
    assert shop("--read-only", "retry", "2", "--dry-run").code == 0


def test_records_are_chosen_by_name_by_filter_or_by_group(shop: Shop) -> None:
    shop.lines("retry", "--group", "2", "--yes")
    shop.lines("skip", "--type", "mail.*", "--error", "mailbox 17", "--yes")
    shop.lines("failures", "discard", "1", "--yes")
    assert [each[::2] for each in actions(shop)] == [("retry", 1), ("skip", 1), ("discard", 2)]
    assert actions(shop)[1][1] == "state failed, type mail.*, error mailbox 17"
    assert set(states(shop)) == {1, 2, 3, 4, 5, 6, 7}


def test_a_skipped_record_stays_and_its_key_goes_on(shop: Shop) -> None:
    assert "Later records of a key go on without these" in shop.lines("skip", "2", "--yes")[1]
    found = states(shop)
    assert found[2] == "failed"
    assert [found[each] for each in (3, 4, 5)] == ["ready", "parked", "parked"]


def test_a_filter_discards_failed_records_unless_a_state_is_given(shop: Shop) -> None:
    shop.lines("discard", "--key", "order/7", "--yes")
    assert set(states(shop)) == {1, 3, 4, 5, 6, 7, 8, 9}
    shop.lines("discard", "--state", "pending", "--key", "order/7", "--yes")
    assert set(states(shop)) == {1, 6, 7, 8, 9}


def test_several_types_are_listed(shop: Shop) -> None:
    [first, *_] = shop.lines("retry", "2", "8", "9", "8", "--dry-run")
    assert "3 records (2 mail.sent, 1 order.paid) of 1 key" in first


def test_published_records_are_replayed(shop: Shop) -> None:
    assert "Replayed 2 records." in shop.lines("replay", "--type", "order.placed", "--yes")
    assert [states(shop)[each] for each in (1, 6)] == ["waiting"] * 2
    headers = shop.json("show", "6")["headers"]
    [entry] = shop.json("audit")
    assert headers["postroom-replay"] == entry["details"]["replay"]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("retry",), 2, "which records?"),
        (("retry", "2", "--type", "order.paid"), 2, "one of these"),
        (("retry", "1"), 1, "postroom replay 1"),
        (("replay", "2"), 1, "record 2 (order.paid) is failed"),
        (("retry", "--state", "published"), 2, "--state published: retry is for"),
        (("retry", "404"), 1, "no record has the id or position '404'"),
        (("failures", "retry", "7"), 1, "group 7 of failures; there are 2. See: postroom"),
        (("pause", "--type", "a", "--key", "b"), 2, "give one of them"),
        (("pause", "--type", "order.*"), 2, "without *"),
        (("purge", "--older-than", "soon"), 2, "--older-than is 'soon'"),
        (("purge",), 2, "--older-than"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    shop: Shop, words: tuple[str, ...], code: int, text: str
) -> None:
    assert text in shop(*words, "--yes").error_line(code)
    assert actions(shop) == []


def test_nothing_to_change_is_no_error(empty_shop: Shop) -> None:
    for words in (("retry", "--type", "order.*"), ("resume",), ("purge", "--older-than", "1d")):
        assert len(empty_shop.lines(*words, "--yes")) == 1
    assert len(empty_shop.lines("audit")) == 1


@pytest.mark.parametrize(
    ("options", "name"),
    [((), "the outbox"), (("--key", "order/7"), "order/7"), (("--type", "mail.sent"), "mail.sent")],
)
def test_deliveries_are_paused_and_resumed(shop: Shop, options: tuple[str, ...], name: str) -> None:
    lines = shop.lines("pause", *options, "--reason", "a repair", "--yes")
    assert " ".join(["postroom resume", *options]) in lines[1]
    assert lines[2] == f"Paused {name}."
    [again] = shop.lines("pause", *options, "--yes")
    assert again.startswith(f"Paused already: {name}, ")
    assert "a repair" in again
    resumed = shop.json("resume", *options, "--yes")
    assert (resumed["target"], resumed["changed"]) == (name, True)
    assert [each[:2] for each in actions(shop)] == [("pause", name), ("resume", name)]


def start_workers(shop: Shop, *names: str) -> None:
    """Have idle workers report, as their heartbeats do."""

    async def report() -> None:
        engine = engine_of(shop.url)
        for name in names:
            await Store(engine, outbox.tables).leases.report(name, {"version": "0.1.0"})
        await engine.dispose()

    asyncio.run(report())


def worker_states(shop: Shop) -> dict[str, str]:
    return {each["name"]: each["state"] for each in shop.json("workers")["workers"]}


def test_a_worker_is_drained_and_resumed(empty_shop: Shop) -> None:
    start_workers(empty_shop, "web1:42:aa", "web2:7:bb")
    drained = empty_shop.lines("workers", "drain", "web1:42", "--yes")
    assert drained[1].endswith("1 other worker takes over.")
    assert worker_states(empty_shop) == {"web1:42:aa": "drained", "web2:7:bb": "idle"}
    assert empty_shop.lines("workers")[1].split()[:2] == ["web1:42", "drained"]
    assert "workers     2 (1 drained, 1 idle)" in empty_shop.lines("status")
    [again] = empty_shop.lines("workers", "drain", "web1:42:aa", "--yes")
    assert again.startswith("Drained already")
    last = empty_shop.lines("workers", "drain", "web2:7:bb", "--dry-run")
    assert "No other worker takes records: they wait." in last[1]
    resumed = empty_shop.json("workers", "resume", "web1:42", "--yes")
    assert (resumed["target"], resumed["changed"]) == ("worker web1:42:aa", True)
    assert not empty_shop.json("workers", "resume", "web1:42", "--yes")["changed"]
    target = "worker web1:42:aa"
    assert actions(empty_shop) == [("drain", target, 0), ("undrain", target, 0)]


def test_records_that_wait_for_a_drained_worker_say_so(shop: Shop) -> None:
    start_workers(shop, "web1:42:aa")
    shop.lines("skip", "2", "--yes")
    shop.lines("workers", "drain", "web1:42", "--yes")
    assert shop.json("show", "3")["wait"]["reason"] == "drained"
    assert "web1:42:aa" in shop("why", "order/7").out
    [check] = [each for each in shop.json("doctor", code=1)["checks"] if each["check"] == "workers"]
    assert "web1:42:aa" in check["findings"][0]["text"]


def test_a_worker_has_to_be_named_unambiguously(empty_shop: Shop) -> None:
    drain = ("workers", "drain", "web1:42", "--yes")
    assert "none is running" in empty_shop(*drain).error_line(1)
    start_workers(empty_shop, "web1:42:aa", "web1:42:bb", "web2:7:cc")
    assert empty_shop(*drain).error_line(1).endswith("web1:42:aa, web1:42:bb")
    shown = [line.split()[0] for line in empty_shop.lines("workers")[1:]]
    assert shown == ["web1:42:aa", "web1:42:bb", "web2:7"]
    for name in ("web3:1", "web2", "web1:4"):
        line = empty_shop("workers", "resume", name, "--yes").error_line(1)
        assert line.endswith("web1:42:aa, web1:42:bb, web2:7")
    empty_shop.lines("workers", "drain", "web1:42:bb", "--yes")
    assert set(worker_states(empty_shop).values()) == {"idle", "drained"}


def test_delivered_records_are_purged(shop: Shop) -> None:
    lines = shop.lines("purge", "--older-than", "0s", "--yes")
    assert lines[0].startswith("To purge: 3 records, delivered more than 0.0 s ago.")
    assert lines[1] == "3 records deleted."
    assert set(states(shop)) == {2, 3, 4, 5, 8, 9}
    assert shop.json("purge", "--older-than", "0s", "--yes")["changed"] == 0


def test_the_audit_is_listed_in_pages(shop: Shop) -> None:
    for record in ("2", "8", "9"):
        shop.lines("retry", record, "--yes")
    header, newest, _ = shop.lines("audit", "--limit", "2")
    assert header.split() == ["id", "time", "operator", "host", "action", "records", "target"]
    assert newest.split()[-4:-1] == ["retry", "1", "record"]
    older = shop.json("audit", "--before", newest.split()[0])
    assert [each["records"] for each in older] == [1, 1]
