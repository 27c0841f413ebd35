"""The rules, without anything around them."""

from uuid import uuid4

import pytest

from accounts.account.domain.account import Account
from accounts.account.domain.errors import WeakPasswordError
from accounts.account.domain.events import AccountCreated
from accounts.account.domain.password import Password
from accounts.account.domain.role import AccountRole
from accounts.core.domain.profile import Profile


def test_who_signs_up_is_a_user_and_the_event_says_so() -> None:
    account = Account.sign_up("ann@example.com", "a hash")
    [event] = account.collect_events()
    assert isinstance(event, AccountCreated)
    assert (event.account_id, event.email) == (account.account_id, "ann@example.com")
    assert event.role is account.role is AccountRole.USER


def test_an_address_is_the_same_however_it_is_written() -> None:
    assert Account.sign_up("  Ann@Example.COM ", "a hash").email == "ann@example.com"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("elevenchars", "12 to 128 characters"),
        ("abcdefgh" * 16 + "i", "12 to 128 characters"),
        ("abcdabcdabcd", "5 different characters"),
        ("with a \0 in it", "can be typed"),
        ("with a \ud800 in it", "can be typed"),
        ("with a \n in it", "can be typed"),
    ],
)
def test_a_weak_password_is_refused(text: str, error: str) -> None:
    with pytest.raises(WeakPasswordError, match=error):
        Password(text)


@pytest.mark.parametrize("text", ["abcdeabcdeab", "abcdefgh" * 16, "пароль из слов"])
def test_any_other_password_will_do_and_does_not_show_itself(text: str) -> None:
    assert text not in repr(Password(text))


def test_a_profile_is_called_by_what_stands_before_the_at() -> None:
    account_id = uuid4()
    profile = Profile.for_account(account_id, "ann.lee+shop@example.com")
    assert (profile.account_id, profile.display_name) == (account_id, "ann.lee+shop")
