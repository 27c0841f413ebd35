"""`make demo`: each button does what it says, nothing gets lost, and it ends when it is told to."""

import re
import signal
import socket
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from demo.broker import socket_path
from tests.examples.demo import Demo, State, forked, is_running, running_demo
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.extended


def steps(state: State, message: str, column: str = "delivered") -> list[str]:
    """Return what happened to a message, the oldest first, as a column of the page shows it."""
    return [card["step"] for card in state["columns"][column][::-1] if card["message"] == message]


def told(state: State) -> str:
    """Return the latest line of the story."""
    return str(state["story"][0]["text"])


async def test_the_address_comes_first_and_has_a_page_the_console_and_the_docs(demo: Demo) -> None:
    assert demo.printed[0].startswith(f"Open {demo.address} ")
    async with httpx.AsyncClient(base_url=demo.address, timeout=PATIENCE) as client:
        page = await client.get("/")
        assert page.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src")
        for path in ("/console/", "/docs", "/demo/files/page.css", "/demo/files/page.js"):
            assert (await client.get(path)).status_code == 200, path


async def test_a_message_is_four_records_which_arrive_in_order(demo: Demo) -> None:
    before = demo.state()["counters"]["committed"]
    assert demo.press("send").headers["Location"] == "/"
    [message] = re.findall(r"You sent (message \d+)", told(demo.state()))
    state = await demo.until_all_is_delivered()
    assert state["counters"]["committed"] == before + 4
    assert steps(state, message) == ["created", "queued", "processing", "completed"]


async def test_records_wait_while_the_broker_is_stopped(demo: Demo) -> None:
    demo.press("stop-broker")
    demo.press("send")
    state = await demo.until(lambda state: state["columns"]["pending"], "records wait")
    assert {card["note"] for card in state["columns"]["pending"]} == {"broker stopped"}
    assert (state["broker_runs"], state["counters"]["waiting"]) == (False, 4)
    demo.press("start-broker")
    assert (await demo.until_all_is_delivered())["broker_runs"]
    done = "4 records that waited for the broker: all delivered, in order."
    await demo.until(lambda state: told(state) == done, "the end of the backlog is told")


async def test_a_refused_record_is_tried_again_and_the_later_ones_wait_for_it(demo: Demo) -> None:
    demo.press("refuse")
    state = await demo.until(lambda state: "refused “created” of" in told(state), "a refusal")
    [message] = re.findall(r"of (message \d+): the queue is full", told(state))
    again = f"“created” of {message} was delivered when tried again."
    await demo.until(lambda state: again in [line["text"] for line in state["story"]], again)
    state = await demo.until_all_is_delivered()
    assert steps(state, message) == ["created", "queued", "processing", "completed"]


async def test_a_rolled_back_request_leaves_neither_message_nor_record(demo: Demo) -> None:
    before = demo.state()
    demo.press("roll-back")
    after = demo.state()
    assert after["rolled_back"] == before["rolled_back"] + 1
    assert after["counters"] == before["counters"]
    assert re.search(r"500 Internal.*: \d+ messages? and \d+ records, as before", told(after))


async def test_a_killed_worker_is_replaced_and_nothing_gets_lost(demo: Demo) -> None:
    state = await demo.until(lambda state: state["worker"]["pid"], "a worker runs")
    first = state["worker"]
    demo.press("send")
    demo.press("kill")
    assert not is_running(first["pid"])
    state = await demo.until_all_is_delivered()
    assert state["worker"]["number"] == first["number"] + 1
    assert is_running(state["worker"]["pid"])
    taken_over = f"Worker {state['worker']['number']} has taken over."
    await demo.until(lambda state: taken_over in [each["text"] for each in state["story"]], "told")


async def test_no_other_web_site_can_press_a_button(demo: Demo) -> None:
    before = demo.state()["story"]
    host = urlsplit(demo.address).netloc
    assert demo.press("kill", Sec_Fetch_Site="cross-site").status_code == 403
    assert demo.press("kill", Sec_Fetch_Site="same-site").status_code == 403
    assert demo.press("kill", Origin="https://example.com").status_code == 403
    assert demo.press("kill", Origin="http://example.com", Host="example.com").status_code == 403
    assert demo.press("nothing", Origin=f"http://{host}").status_code == 404
    assert demo.state()["story"] == before


async def test_ctrl_c_ends_it_during_an_outage(tmp_path: Path) -> None:
    with running_demo(tmp_path, forked()) as demo:
        await demo.until(lambda state: state["counters"]["delivered"], "a delivery")
        demo.press("stop-broker")
        demo.press("send")
        demo.end(signal.SIGINT)


async def test_it_can_be_told_when_to_end_and_takes_another_port(tmp_path: Path) -> None:
    with socket.socket() as taken:
        with suppress(OSError):  # somebody else has it already, which is as good
            taken.bind(("127.0.0.1", 8000))
            taken.listen()
        with running_demo(tmp_path, forked("--seconds", "0.5")) as demo:
            assert urlsplit(demo.address).port != 8000
            assert demo.process.wait(PATIENCE) == 0
            assert demo.printed[-1] == "The demo has stopped."


async def test_the_worker_ends_when_the_demo_is_killed(tmp_path: Path) -> None:
    with running_demo(tmp_path, forked()) as demo:
        state = await demo.until(lambda state: state["worker"]["pid"], "a worker runs")
        demo.process.kill()
        worker = state["worker"]["pid"]
        await eventually(lambda: not is_running(worker), "the worker ends")


def test_the_socket_of_the_broker_has_a_path_that_is_short_enough() -> None:
    assert socket_path(Path("/tmp/demo-1")) == Path("/tmp/demo-1/broker")  # noqa: S108
    assert socket_path(Path("/tmp") / ("long" * 30) / "demo-1") == Path("/tmp/demo-1.broker")  # noqa: S108
