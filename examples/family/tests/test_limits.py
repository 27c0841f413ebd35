"""Nobody gets more mails, and no document has more done, than the limits allow."""

import asyncio
from collections import Counter
from datetime import timedelta
from uuid import UUID

import pytest
from graphql import get_introspection_query
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine
from users import Answer, Someone, address

from family.domain.invitation import MAX_INVITATIONS, MAX_RESENDS, RESEND_INTERVAL

RESEND = 'resendFamilyMemberInvitation(invitationId: "{}") {{ __typename }}'
RESENT = "ResendFamilyMemberInvitationPayload"
INVITED = "InviteFamilyMemberByEmailPayload"


class Post:
    """What was sent to one address, as the outbox has it."""

    def __init__(self, engine: AsyncEngine, email: str) -> None:
        self._engine = engine
        self.email = email

    async def mails(self) -> int:
        of_address = "payload #>> '{email,value}' = :email"
        query = f"SELECT count(*) FROM auth.outbox_events WHERE {of_address}"
        async with self._engine.connect() as connection:
            return int(await connection.scalar(text(query), {"email": self.email}) or 0)

    async def rest(self, by: timedelta = RESEND_INTERVAL) -> None:
        """Let time pass for the invitations of the address."""
        statement = (
            "UPDATE auth.family_member_invitations SET sent_at = sent_at - CAST(:by AS interval)"
        )
        async with self._engine.begin() as connection:
            values = {"by": by, "email": self.email}
            await connection.execute(text(f"{statement} WHERE email = :email"), values)


@pytest.fixture
def post(engine: AsyncEngine) -> Post:
    return Post(engine, address())


@pytest.fixture
async def invitation(ann: Someone, family: str, post: Post) -> str:
    """The id of an invitation that may be resent."""
    answer = await ann.invite(family, post.email)
    await post.rest()
    return str(UUID(answer["invitation"]["id"]))


def aliased(invitation: str, count: int) -> str:
    resend = RESEND.format(invitation)
    return " ".join(f"a{number}: {resend}" for number in range(count))


def kinds(answers: list[Answer]) -> Counter[str]:
    return Counter(answer["__typename"] for answer in answers)


@pytest.mark.parametrize(
    "document",
    [
        "mutation {{ {} }}",
        "mutation {{ ...Resends }} fragment Resends on Mutation {{ {} }}",
        "mutation {{ ... on Mutation {{ ... {{ {} }} }} }}",
    ],
    ids=["aliases", "fragment", "inline fragments"],
)
async def test_a_document_with_100_aliased_resends_sends_nothing(
    ann: Someone, invitation: str, post: Post, document: str
) -> None:
    answer = (await ann.post(document.format(aliased(invitation, 100)))).json()
    assert answer["data"] is None
    assert answer["errors"] == [
        {
            "message": "An operation may have at most 10 fields at its top level.",
            "extensions": {"code": "TOO_LARGE"},
        }
    ]
    assert await post.mails() == 1


async def test_a_fragment_that_is_used_often_counts_as_often(ann: Someone, invitation: str) -> None:
    uses = " ".join(f"f{n}: family(id: $id) {{ ...All }}" for n in range(10))
    members = " ".join(f"m{n}: members {{ userId email role }}" for n in range(20))
    document = f"query ($id: UUID!) {{ {uses} }} fragment All on Family {{ {members} }}"
    answer = (await ann.post(document, id=invitation)).json()
    assert answer["errors"][0]["message"] == "An operation may have at most 500 fields."


async def test_100_aliased_resends_in_10_requests_at_once_send_one_mail(
    ann: Someone, invitation: str, post: Post
) -> None:
    document = f"mutation {{ {aliased(invitation, 10)} }}"
    responses = await asyncio.gather(*(ann.post(document) for _ in range(10)))
    answers = [each for it in responses for each in it.json()["data"].values()]
    assert kinds(answers) == {RESENT: 1, "ResendTooSoon": 99}
    assert await post.mails() == 2


async def test_an_invitation_is_resent_a_few_times_and_then_no_more(
    ann: Someone, invitation: str, post: Post
) -> None:
    answers = []
    for _ in range(MAX_RESENDS + 2):
        answers.append(await ann.resend(invitation))
        await post.rest()
    assert kinds(answers) == {RESENT: MAX_RESENDS, "TooManyResends": 2}
    assert answers[-1]["message"].startswith("This invitation cannot be resent any more.")
    assert await post.mails() == 1 + MAX_RESENDS


async def test_the_last_resend_is_not_sent_twice_by_two_at_once(
    ann: Someone, invitation: str, post: Post
) -> None:
    for _ in range(MAX_RESENDS - 1):
        await ann.resend(invitation)
        await post.rest()
    answers = await asyncio.gather(*(ann.resend(invitation) for _ in range(5)))
    assert kinds(answers) == {RESENT: 1, "TooManyResends": 4}
    assert await post.mails() == 1 + MAX_RESENDS


async def test_many_families_at_once_send_an_address_a_few_invitations(
    ann: Someone, post: Post
) -> None:
    families = [await ann.create_family() for _ in range(MAX_INVITATIONS + 5)]
    answers = await asyncio.gather(*(ann.invite(family, post.email) for family in families))
    assert kinds(answers) == {INVITED: MAX_INVITATIONS, "TooManyInvitations": 5}
    assert await post.mails() == MAX_INVITATIONS
    await post.rest(timedelta(days=1))
    family = await ann.create_family()
    assert (await ann.invite(family, post.email))["__typename"] == INVITED


async def test_an_address_is_invited_once_by_two_at_once(
    ann: Someone, family: str, post: Post
) -> None:
    answers = await asyncio.gather(*(ann.invite(family, post.email) for _ in range(5)))
    assert kinds(answers) == {INVITED: 1, "AlreadyInvited": 4}
    assert await post.mails() == 1


FRAGMENTS = " ".join(f"fragment F{n} on Query {{ ...F{n + 1} ...F{n + 1} }}" for n in range(100))
BOMB = f"{{ ...F0 }} {FRAGMENTS} fragment F100 on Query {{ __typename }}"
LONG = "{ " + "__typename " * 3_000 + "}"
DEEP = "{ " + "... { " * 50 + "__typename" + " }" * 50 + " }"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (LONG, "Syntax Error: Document contains more than 2000 tokens. Parsing aborted."),
        (DEEP, "An operation may have at most 25 levels."),
        (BOMB, "An operation may have at most 25 levels."),
    ],
    ids=["long", "deep", "fragments that double"],
)
async def test_a_document_that_asks_for_too_much_is_refused(
    ann: Someone, document: str, message: str
) -> None:
    answer = (await ann.post(document)).json()
    assert answer["data"] is None
    assert answer["errors"][0]["message"] == message


@pytest.mark.parametrize(
    "document", ["{ ...Nowhere }", "{ ...A } fragment A on Query { ...A }"], ids=["none", "itself"]
)
async def test_a_fragment_that_cannot_be_used_is_explained(ann: Someone, document: str) -> None:
    [error] = (await ann.post(document)).json()["errors"]
    assert "fragment" in error["message"]


async def test_graphiql_may_ask_for_the_schema(ann: Someone) -> None:
    answer = (await ann.post(get_introspection_query(input_value_deprecation=True))).json()
    assert answer["data"]["__schema"]["mutationType"]["name"] == "Mutation"
