"""What every inspector has to answer, whatever the database; joined as the suite of stores is."""

import pytest
import pytest_asyncio

from tests.conformance.inspection.databases import Databases
from tests.conformance.inspection.lists import Blocking, Failing, Lists
from tests.conformance.inspection.oddities import Oddities
from tests.conformance.inspection.overviews import Overviews
from tests.conformance.inspection.waits import WaitingKeys, Waits, Working
from tests.conformance.inspection.window import Window
from tests.conformance.store.rig import StoreHarness


class InspectionSuite(
    Overviews, Lists, Failing, Blocking, Waits, WaitingKeys, Working, Databases, Oddities
):
    """Every test; a subclass gives the harness."""

    @pytest.fixture
    def harness(self) -> StoreHarness:
        raise NotImplementedError

    @pytest_asyncio.fixture(loop_scope="module")
    async def window(self, harness: StoreHarness) -> Window:
        """Look at an outbox that is empty."""
        window = Window(harness)
        await window.clear()
        return window
