"""What tests of handlers begin with."""

import pytest

from postroom.identity import uuid7
from postroom.record import ClaimedRecord
from tests.support.claims import claimed
from tests.support.note_handlers import Diary
from tests.support.shop import AccountOpened


@pytest.fixture
def diary() -> Diary:
    """What the handlers of a test have done."""
    return Diary()


@pytest.fixture
def record() -> ClaimedRecord:
    """The record of an account that was opened."""
    return claimed(AccountOpened(account_id=uuid7(), email="a@b.com"))
