"""The use case, with fakes for its ports."""

from collections.abc import Iterable
from uuid import UUID

import pytest
from postroom import Event

from accounts.account.application.sign_up import SignUp, SignUpHandler
from accounts.account.domain.account import Account
from accounts.account.domain.errors import EmailTakenError
from accounts.account.domain.events import AccountCreated
from accounts.account.domain.password import Password

COMMAND = SignUp(email="Ann@Example.com", password=Password("correct horse battery"))


class FakeAccounts:
    """An `AccountRepository` in memory."""

    def __init__(self) -> None:
        self.added: list[Account] = []

    async def add(self, account: Account) -> None:
        if any(each.email == account.email for each in self.added):
            raise EmailTakenError(account.email)
        self.added.append(account)

    async def get(self, account_id: UUID) -> Account | None:
        return next((each for each in self.added if each.account_id == account_id), None)


class FakeWorld:
    """A unit of work, a hasher and a dispatcher that note what was asked of them."""

    def __init__(self) -> None:
        self.accounts = FakeAccounts()
        self.steps: list[object] = []

    async def hash(self, password: Password) -> str:
        return f"hash of {password.text}"

    async def dispatch(self, events: Iterable[Event]) -> None:
        self.steps.extend(events)

    async def commit(self) -> None:
        self.steps.append("commit")

    def handler(self) -> SignUpHandler:
        return SignUpHandler(self, self, self)


async def test_the_account_has_the_hash_and_not_the_password() -> None:
    world = FakeWorld()
    await world.handler().handle(COMMAND)
    [account] = world.accounts.added
    assert account.password_hash == "hash of correct horse battery"


async def test_the_event_is_dispatched_before_the_commit() -> None:
    world = FakeWorld()
    account = await world.handler().handle(COMMAND)
    event, commit = world.steps
    assert isinstance(event, AccountCreated)
    assert (event.account_id, commit) == (account.account_id, "commit")
    assert account.domain_events == ()


async def test_an_address_that_is_taken_leaves_no_event_and_no_commit() -> None:
    world = FakeWorld()
    await world.handler().handle(COMMAND)
    world.steps.clear()
    with pytest.raises(EmailTakenError):
        await world.handler().handle(COMMAND)
    assert world.steps == []


def test_a_command_does_not_show_the_password() -> None:
    assert "correct horse" not in repr(COMMAND)
