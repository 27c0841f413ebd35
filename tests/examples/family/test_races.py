"""Several who want the same at the same moment."""

import asyncio
from collections.abc import Callable

import pytest

from tests.examples.family.database import Database
from tests.examples.family.users import Someone, address


@pytest.mark.requirement("D5")
async def test_of_two_that_invite_an_address_at_once_one_succeeds(
    ann: Someone, family: str, database: Database
) -> None:
    for _ in range(5):
        email = address()
        answers = await asyncio.gather(*(ann.invite(family, email) for _ in range(4)))
        kinds = sorted(answer["__typename"] for answer in answers)
        assert kinds == ["AlreadyInvited"] * 3 + ["InviteFamilyMemberByEmailPayload"]
    assert len(database.records(family)) == len(database.invitations(family)) == 5


async def test_the_database_itself_refuses_a_second_open_invitation(
    ann: Someone, family: str, database: Database
) -> None:
    """Both have seen that there is none: only the index is left to tell."""
    email = address()
    first = database.begin_to_invite(family, email)
    second = asyncio.create_task(ann.invite(family, email))
    await database.somebody_waits()
    first.run("COMMIT")
    first.close()
    assert (await second)["__typename"] == "AlreadyInvited"
    assert database.records(family) == []


async def test_of_two_that_accept_at_once_one_joins(
    ann: Someone, family: str, someone: Callable[[], Someone], database: Database
) -> None:
    invitation = (await ann.invite(family))["invitation"]["id"]
    token = database.token(invitation)
    answers = await asyncio.gather(*(someone().accept(token) for _ in range(4)))
    kinds = sorted(answer["__typename"] for answer in answers)
    assert kinds == ["AcceptFamilyMemberInvitationPayload"] + ["InvitationAccepted"] * 3
    assert len((await ann.look(family))["members"]) == 2


async def test_of_two_invitations_that_somebody_accepts_at_once_one_counts(
    ann: Someone, family: str, someone: Callable[[], Someone], database: Database
) -> None:
    for _ in range(3):
        john = someone()
        tokens = [database.token((await ann.invite(family))["invitation"]["id"]) for _ in range(3)]
        answers = await asyncio.gather(*(john.accept(token) for token in tokens))
        kinds = sorted(answer["__typename"] for answer in answers)
        assert kinds == ["AcceptFamilyMemberInvitationPayload", "AlreadyMember", "AlreadyMember"]


async def test_nobody_is_invited_who_joins_at_the_same_moment(
    ann: Someone, family: str, someone: Callable[[], Someone], database: Database
) -> None:
    for _ in range(5):
        john = someone()
        token = database.token((await ann.invite(family, john.email))["invitation"]["id"])
        invites = (ann.invite(family, john.email) for _ in range(4))
        await asyncio.gather(john.accept(token), *invites)
        [status] = [
            each["status"] for each in database.invitations(family) if each["email"] == john.email
        ]
        assert status == "Accepted"
