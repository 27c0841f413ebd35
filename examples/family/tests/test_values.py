"""Value objects: what they take, what they refuse, what they keep to themselves."""

import pytest

from family.domain.errors import InvalidEmailError, InvalidFamilyNameError
from family.domain.values import (
    Email,
    FamilyId,
    FamilyName,
    Identifier,
    InvitationToken,
    Role,
    RoleName,
    UserId,
)


def test_addresses_that_differ_in_case_only_are_equal() -> None:
    assert Email.parse("John@Example.COM") == Email.parse("john@example.com")


@pytest.mark.parametrize(
    "text",
    ["", "john", "john@", "@example.com", "a b@example.com", "a\0@example.com", "j@\ud800.eu"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidEmailError):
        Email.parse(text)


def test_a_name_loses_the_space_around_it() -> None:
    assert FamilyName.parse("  Smith ").value == "Smith"


@pytest.mark.parametrize("text", ["", "   ", "x" * 101, "a\0b", "a\nb", "\ud800"])
def test_what_can_be_no_name_is_refused(text: str) -> None:
    with pytest.raises(InvalidFamilyNameError):
        FamilyName.parse(text)


def test_an_id_of_one_kind_is_not_one_of_another() -> None:
    user = UserId.new()
    ids: set[Identifier] = {user, FamilyId(user.value)}
    assert len(ids) == 2


def test_a_token_does_not_show_itself() -> None:
    token = InvitationToken.generate()
    for shown in (repr(token), str(token), f"{token}", f"{[token]}"):
        assert token.value not in shown
        assert token.hash not in shown


def test_tokens_are_long_and_never_the_same() -> None:
    tokens = {InvitationToken.generate() for _ in range(100)}
    assert len(tokens) == 100
    assert min(len(token.value) for token in tokens) >= 43  # 256 bits


def test_a_token_is_recognised_by_its_hash() -> None:
    token = InvitationToken.generate()
    assert InvitationToken(token.value).hash == token.hash
    assert InvitationToken(token.value + "x").hash != token.hash
    assert InvitationToken("\ud800").hash  # whatever a client sends


@pytest.mark.parametrize(
    ("role", "others"),
    [
        (RoleName.OWNER, {"Admin", "Member", "Child"}),
        (RoleName.ADMIN, {"Member", "Child"}),
        (RoleName.MEMBER, set()),
        (RoleName.CHILD, set()),
    ],
)
def test_a_role_says_as_whom_others_may_be_invited(role: RoleName, others: set[str]) -> None:
    assert Role(role).invites == others
