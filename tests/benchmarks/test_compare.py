"""The comparison works: with few events, postroom loses none of those that publishing loses."""

from pathlib import Path

import pytest

from benchmarks.compare.__main__ import play
from benchmarks.compare.compared import AFTER_COMMIT, POSTROOM
from benchmarks.compare.faults import Outcome
from benchmarks.compare.report import Row, markdown, recovery, write
from benchmarks.compare.stage import Settings
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.extended

FEW = Settings(events=6, keys=2, outage=0.5, after_outage=PATIENCE, otherwise=PATIENCE)


@pytest.mark.parametrize("fault", ["killed", "outage"])
async def test_postroom_loses_no_event_and_keeps_the_order(
    fault: str, rabbitmq_url: str, tmp_path: Path
) -> None:
    outcome = await play(fault, POSTROOM, rabbitmq_url, FEW, tmp_path)
    assert (outcome.delivered, outcome.of, outcome.in_order) == (6, 6, True)


async def test_an_application_that_is_killed_before_it_publishes_loses_its_events(
    rabbitmq_url: str, tmp_path: Path
) -> None:
    few = Settings(events=6, keys=2, otherwise=0.5)
    outcome = await play("killed", AFTER_COMMIT, rabbitmq_url, few, tmp_path)
    assert outcome.delivered == 0


def test_rows_of_another_run_stay_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "comparison.json"
    lost = Outcome(delivered=4, of=6, repeated=0, in_order=False, seconds=2.5)
    arrived = Outcome(delivered=6, of=6, repeated=1, in_order=True, seconds=0.1)
    write(path, [Row("killed", "make a", {"postroom": arrived})], FEW)
    content = write(path, [Row("outage", "make b", {"postroom": lost})], FEW)
    assert markdown(content).splitlines() == [
        "|  | killed | outage |",
        "| --- | --- | --- |",
        "| postroom | 6 of 6, in order | **4 of 6**, **not in order** |",
    ]
    assert recovery(content).splitlines()[-1] == "| postroom | 0.1 | 2.5 |"
