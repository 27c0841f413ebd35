"""What every store has to do. A harness tells the suite how to reach one, and what it is like.

A new store joins with a harness, and a class of tests that gives it:

    class TestMine(StoreSuite):
        @pytest.fixture
        def harness(self) -> StoreHarness:
            return MyHarness(engine)

Its tests share an event loop, and the engine with it: a connection per test takes longer than most
of them.
"""

import pytest
import pytest_asyncio

from tests.conformance.store.auditing import Auditing, Pauses
from tests.conformance.store.claiming import Claiming
from tests.conformance.store.cleaning import Cleaning
from tests.conformance.store.draining import Draining
from tests.conformance.store.history import History
from tests.conformance.store.identity import ChosenBefore, Identity
from tests.conformance.store.leasing import Leasing
from tests.conformance.store.mending import Mending
from tests.conformance.store.operating import Operating
from tests.conformance.store.pausing import Pausing
from tests.conformance.store.replaying import Purging, Replaying
from tests.conformance.store.rig import StoreHarness, StoreRig
from tests.conformance.store.rubbish import Rubbish
from tests.conformance.store.settling import Settling
from tests.conformance.store.waiting import Waiting


class StoreFixtures:
    """What the tests ask for; a subclass gives the harness."""

    @pytest.fixture
    def harness(self) -> StoreHarness:
        raise NotImplementedError

    @pytest.fixture
    def own_rubbish(self) -> str:
        """Give what only this database lets a row be set to, as SQL; parametrized."""
        raise NotImplementedError

    @pytest_asyncio.fixture(loop_scope="module")
    async def rig(self, harness: StoreHarness) -> StoreRig:
        """Open a rig at an outbox that is empty."""
        rig = StoreRig(harness)
        await rig.clear()
        return rig


class OperationsSuite(
    StoreFixtures, Operating, Pausing, Draining, Replaying, Purging, Auditing, Pauses, ChosenBefore
):
    """What operators change."""


class StoreSuite(
    OperationsSuite,
    Leasing,
    Claiming,
    Waiting,
    Settling,
    History,
    Identity,
    Mending,
    Cleaning,
    Rubbish,
):
    """Every test."""
