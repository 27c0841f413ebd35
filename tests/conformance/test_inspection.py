"""Every database, through the one suite of questions."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.conformance.inspection.window import Window
from tests.conformance.inspection_suite import InspectionSuite
from tests.conformance.store.harnesses import postgres, sqlite
from tests.conformance.store.rig import StoreHarness
from tests.support.waiting import FULL

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _asyncpg(postgres_url: str) -> AsyncIterator[StoreHarness]:
    async with postgres(postgres_url) as harness:
        yield harness


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _psycopg(postgres_sync_url: str) -> AsyncIterator[StoreHarness]:
    async with postgres(postgres_sync_url) as harness:
        yield harness


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _sqlite(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[StoreHarness]:
    async with sqlite(tmp_path_factory.mktemp("sqlite")) as harness:
        yield harness


class TestPostgresWithAsyncpg(InspectionSuite):
    @pytest.fixture
    def harness(self, _asyncpg: StoreHarness) -> StoreHarness:
        return _asyncpg


if FULL:  # the stores' suite shows that both drivers give the same values

    class TestPostgresWithPsycopg(InspectionSuite):
        @pytest.fixture
        def harness(self, _psycopg: StoreHarness) -> StoreHarness:
            return _psycopg


class TestSQLite(InspectionSuite):
    @pytest.fixture
    def harness(self, _sqlite: StoreHarness) -> StoreHarness:
        return _sqlite

    @pytest.mark.extended  # it asks every question for each of 44 kinds of rubbish, twice
    async def test_no_rubbish_in_a_row_keeps_a_question_from_its_answer(
        self, window: Window
    ) -> None:
        await super().test_no_rubbish_in_a_row_keeps_a_question_from_its_answer(window)
