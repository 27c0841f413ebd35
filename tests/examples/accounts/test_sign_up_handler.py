"""The order of steps in the use case, with fakes for its ports."""

from collections.abc import Iterable
from uuid import UUID

import pytest

from accounts.account.application.sign_up import SignUp, SignUpHandler
from accounts.account.domain.account import Account
from accounts.account.domain.events import AccountCreated
from accounts.account.domain.password import Password
from postroom import Event


class FakeWorld:
    """Every port of the use case: notes in which order they were used."""

    def __init__(self) -> None:
        self.steps: list[object] = []

    @property
    def accounts(self) -> "FakeWorld":
        return self

    async def add(self, account: Account) -> None:
        self.steps.append("add")

    async def get(self, account_id: UUID) -> Account | None:
        return None

    async def hash(self, password: Password) -> str:
        self.steps.append("hash")
        return "a hash"

    async def dispatch(self, events: Iterable[Event]) -> None:
        self.steps.extend(events)

    async def commit(self) -> None:
        self.steps.append("commit")


@pytest.mark.requirement("A5")
@pytest.mark.requirement("A19")
async def test_the_event_is_dispatched_before_the_commit() -> None:
    world = FakeWorld()
    command = SignUp(email="ann@example.com", password=Password("correct horse battery"))
    account = await SignUpHandler(world, world, world).handle(command)
    hashed, added, event, commit = world.steps
    assert (hashed, added, commit) == ("hash", "add", "commit")
    assert isinstance(event, AccountCreated)
    assert event.account_id == account.account_id
    assert account.domain_events == ()
