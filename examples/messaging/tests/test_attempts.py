"""The number of attempts for an event, and which acknowledgement each one ends with."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from sqlalchemy.exc import OperationalError

from messaging import attempts
from messaging.attempts import Verdict, attempt
from messaging.processing import InvalidEventError, Result

OUTAGE = OperationalError("SELECT 1", {}, ConnectionRefusedError("no database"))
FAILURE = RuntimeError("failed")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "PAUSES", (0.0,))
    monkeypatch.setattr(attempts, "OUTAGE_PAUSE", 0.0)


def processing(*outcomes: Exception | Result) -> Callable[[], Awaitable[Result]]:
    """Return what ends so on each call in turn. A further call is an error."""
    left = list(outcomes)

    async def process() -> Result:
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return process


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ([Result.PROCESSED], Verdict.ACKNOWLEDGE),
        ([Result.REPEATED], Verdict.ACKNOWLEDGE),
        ([FAILURE, FAILURE, Result.PROCESSED], Verdict.ACKNOWLEDGE),
        ([FAILURE, FAILURE, FAILURE], Verdict.REJECT),
        ([InvalidEventError("no id")], Verdict.REJECT),
        ([OUTAGE], Verdict.REQUEUE),
        ([FAILURE, FAILURE, OUTAGE], Verdict.REQUEUE),
    ],
)
async def test_three_attempts(outcomes: list[Exception | Result], verdict: Verdict) -> None:
    process = processing(*outcomes)
    assert await attempt(process, "it", max_attempts=3, stopped=asyncio.Event()) is verdict


async def test_a_process_that_stops_makes_no_further_attempt() -> None:
    stopped = asyncio.Event()
    stopped.set()
    process = processing(FAILURE)
    assert await attempt(process, "it", max_attempts=3, stopped=stopped) is Verdict.REQUEUE
