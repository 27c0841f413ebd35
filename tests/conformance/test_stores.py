"""Every store, through the one suite."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.conformance.store.claiming import Claiming
from tests.conformance.store.cleaning import Cleaning
from tests.conformance.store.harnesses import postgres, sqlite
from tests.conformance.store.rig import StoreHarness
from tests.conformance.store.rubbish import ON_POSTGRES, ON_SQLITE, Rubbish
from tests.conformance.store_suite import OperationsSuite, StoreFixtures, StoreSuite

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _asyncpg(postgres_url: str) -> AsyncIterator[StoreHarness]:
    async with postgres(postgres_url) as harness:
        yield harness


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _psycopg(postgres_sync_url: str) -> AsyncIterator[StoreHarness]:
    async with postgres(postgres_sync_url) as harness:  # psycopg does both
        yield harness


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def _sqlite(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[StoreHarness]:
    async with sqlite(tmp_path_factory.mktemp("sqlite")) as harness:
        yield harness


class TestPostgresStoreWithAsyncpg(StoreSuite):
    @pytest.fixture
    def harness(self, _asyncpg: StoreHarness) -> StoreHarness:
        return _asyncpg

    @pytest.fixture(params=[*ON_POSTGRES.values()], ids=[*ON_POSTGRES])
    def own_rubbish(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)


class TestPostgresStoreWithPsycopg(StoreFixtures, Claiming, Cleaning):
    """What depends on the driver: parameters and rows of every statement. The rest is SQL."""

    @pytest.fixture
    def harness(self, _psycopg: StoreHarness) -> StoreHarness:
        return _psycopg


@pytest.mark.extended
class TestPostgresOperationsWithPsycopg(OperationsSuite, Rubbish):
    """The rest of what depends on the driver."""

    @pytest.fixture
    def harness(self, _psycopg: StoreHarness) -> StoreHarness:
        return _psycopg

    @pytest.fixture(params=[*ON_POSTGRES.values()], ids=[*ON_POSTGRES])
    def own_rubbish(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)


class TestSQLiteStore(StoreSuite):
    @pytest.fixture
    def harness(self, _sqlite: StoreHarness) -> StoreHarness:
        return _sqlite

    @pytest.fixture(params=[*ON_SQLITE.values()], ids=[*ON_SQLITE])
    def own_rubbish(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)
