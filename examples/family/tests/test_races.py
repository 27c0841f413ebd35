"""Several who want the same at the same moment."""

import asyncio
from collections.abc import Callable

from conftest import eventually, token_of
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine
from users import Answer, Someone, address

ACCEPTED = "AcceptFamilyMemberInvitationPayload"
INVITE = """
INSERT INTO auth.family_member_invitations VALUES
(gen_random_uuid(), :family, :email, 'Child', gen_random_uuid(), :email, now(), now(), 0, 'Pending')
"""
WAITS = """
SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


def kinds(answers: list[Answer]) -> list[str]:
    return sorted(answer["__typename"] for answer in answers)


async def test_the_database_itself_refuses_a_second_open_invitation(
    ann: Someone, family: str, engine: AsyncEngine
) -> None:
    """Both have seen that there is none: only the index is left to tell."""
    email = address()
    async with engine.connect() as first:
        await first.execute(text(INVITE), {"family": family, "email": email})
        second = asyncio.create_task(ann.invite(family, email))

        async def second_waits() -> bool:
            async with engine.connect() as other:
                return await other.scalar(text(WAITS)) is not None

        await eventually(second_waits)
        await first.commit()
        assert (await second)["__typename"] == "AlreadyInvited"


async def test_of_several_that_accept_at_once_one_joins(
    ann: Someone, family: str, someone: Callable[[], Someone], engine: AsyncEngine
) -> None:
    token = await token_of(engine, await ann.invited(family))
    answers = await asyncio.gather(*(someone().accept(token) for _ in range(4)))
    assert kinds(answers) == [ACCEPTED] + ["InvitationAccepted"] * 3
    assert len((await ann.look(family))["members"]) == 2


async def test_of_several_invitations_that_somebody_accepts_at_once_one_counts(
    ann: Someone, family: str, someone: Callable[[], Someone], engine: AsyncEngine
) -> None:
    john = someone()
    tokens = [await token_of(engine, await ann.invited(family)) for _ in range(3)]
    answers = await asyncio.gather(*(john.accept(token) for token in tokens))
    assert kinds(answers) == [ACCEPTED, "AlreadyMember", "AlreadyMember"]


async def test_nobody_is_invited_who_joins_at_the_same_moment(
    ann: Someone, family: str, someone: Callable[[], Someone], engine: AsyncEngine
) -> None:
    john = someone()
    invitation = (await ann.invite(family, john.email))["invitation"]["id"]
    token = await token_of(engine, invitation)
    invites = (ann.invite(family, john.email) for _ in range(4))
    await asyncio.gather(john.accept(token), *invites)
    invited = (await ann.look(family))["invitations"]
    assert [(each["id"], each["status"]) for each in invited] == [(invitation, "ACCEPTED")]
