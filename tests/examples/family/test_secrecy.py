"""A token is in the event, for the mailer, and nowhere else."""

from collections.abc import Callable

import pytest

from family.domain.values import InvitationToken
from tests.examples.family.database import Database
from tests.examples.family.mailbox import Mailbox
from tests.examples.family.users import ACCEPT, INVITE, LOOK, RESEND, Someone, address
from tests.support.server import Server
from tests.support.waiting import eventually

TABLES = "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'auth'"


async def test_no_answer_log_or_table_shows_a_token(
    ann: Someone,
    family: str,
    someone: Callable[[], Someone],
    mail: Mailbox,
    database: Database,
    server: Server,
) -> None:
    answers = [await ann.post(INVITE, familyId=family, email=address(), role="CHILD")]
    invitation = str(database.invitations(family)[0]["id"])
    database.age(invitation, days=1)
    answers.append(await ann.post(RESEND, invitationId=invitation))
    first, second = [each["token"]["value"] for each in await mail.payloads(family, 2)]
    answers.append(await someone().post(ACCEPT, token=first))
    answers.append(await ann.post(f'mutation {{ accept(token: "{second}") {{ x }} }}'))
    answers.append(await someone().post(ACCEPT, token=second))
    answers.append(await ann.post(LOOK, id=family))
    await mail.messages(family, 3)
    await eventually(lambda: all(r["status"] == "published" for r in database.records(family)))

    log = server.command.out + server.command.err
    assert "INSERT INTO auth.family_member_invitations" in log  # there is something to look at
    assert "postroom: settled 1 delivered" in log
    for token in (first, second):
        assert token not in log
        assert InvitationToken(token).hash not in log
        assert not [answer for answer in answers if token in answer.text]
        tables = [str(row["name"]) for row in database.run(TABLES)]
        assert [table for table in tables if _holds(database, table, token)] == ["outbox_events"]


@pytest.mark.parametrize("fields", ["invitation { token }", "invitation { tokenHash }"])
async def test_the_api_knows_no_token(ann: Someone, family: str, fields: str) -> None:
    document = INVITE.replace("invitation {", f"{fields} invitation {{", 1)
    response = await ann.post(document, familyId=family, email=address(), role="CHILD")
    assert response.json()["data"] is None
    assert "Cannot query field" in response.text


def _holds(database: Database, table: str, text: str) -> bool:
    rows = database.run(
        f"SELECT 1 FROM auth.{table} AS t WHERE t::text LIKE %(like)s", like=f"%{text}%"
    )
    return bool(rows)
