"""EVENT_DISPATCH=in_process: handlers run in the request, and what fails is lost."""

import pytest
from accounts_api import FailingProfiles, client_of, profile_of, running, sign_up, wired
from dishka import Provider, Scope, provide
from postroom import OutboxRelay

from accounts.account.application.ports import AccountRepository, AccountUnitOfWork
from accounts.account.infrastructure.persistence.repository import SqlAlchemyAccountUnitOfWork
from accounts.main import container_of
from accounts.settings import EventDispatch, Settings
from accounts.shared.infrastructure.persistence.session import MainAsyncSession


@pytest.fixture
def in_process(settings: Settings) -> Settings:
    return settings.model_copy(update={"event_dispatch": EventDispatch.IN_PROCESS})


async def test_the_profile_is_there_when_the_sign_up_is_answered(in_process: Settings) -> None:
    async with running(in_process) as client:
        account = await sign_up(client)
        assert await profile_of(client, account) == account["email"].partition("@")[0]


async def test_the_effect_of_a_handler_that_fails_is_lost(
    in_process: Settings, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(in_process, FailingProfiles(times=1)) as client:
        account = await sign_up(client)
    assert "create_profile failed to handle AccountCreated" in caplog.text

    async with wired(settings) as app, client_of(app) as client:
        relay = await container_of(app).get(OutboxRelay)
        assert (await relay.run_once()).delivered == 0
        assert await profile_of(client, account) is None


class NoCommit(Provider):
    """Gives a unit of work whose commit fails."""

    @provide(scope=Scope.REQUEST)
    def unit_of_work(
        self, session: MainAsyncSession, accounts: AccountRepository
    ) -> AccountUnitOfWork:
        return FailingUnitOfWork(session, accounts)


class FailingUnitOfWork(SqlAlchemyAccountUnitOfWork):
    async def commit(self) -> None:
        raise RuntimeError("the commit fails")


async def test_no_handler_runs_before_the_commit(
    in_process: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with running(in_process, NoCommit()) as client:
        with pytest.raises(RuntimeError, match="the commit fails"):
            await sign_up(client)
    assert "was created" not in caplog.text
