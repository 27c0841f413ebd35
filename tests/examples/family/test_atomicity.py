"""An invitation and its record are saved together, or neither is."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.examples.family.database import Database
from tests.examples.family.mailbox import Mailbox
from tests.examples.family.users import INVITE, Someone, address
from tests.support.server import Server

FAULT = """
CREATE FUNCTION auth.{name}() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'out of order'; END $$;
CREATE CONSTRAINT TRIGGER {name} AFTER INSERT ON auth.{table} DEFERRABLE {when}
FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION auth.{name}();
"""


@contextmanager
def fault(database: Database, table: str, when: str, family: str) -> Iterator[None]:
    """Have the database refuse what one family inserts into a table, at once or at COMMIT."""
    name = f"fault_{family.replace('-', '')}"
    of_family = {
        "family_member_invitations": f"NEW.family_id = '{family}'",
        "outbox_events": f"NEW.payload #>> '{{familyId,value}}' = '{family}'",
    }
    database.run(FAULT.format(name=name, table=table, when=when, condition=of_family[table]))
    yield
    database.run(f"DROP FUNCTION auth.{name} CASCADE")


@pytest.mark.requirement("D5")
@pytest.mark.parametrize("when", ["INITIALLY IMMEDIATE", "INITIALLY DEFERRED"])
@pytest.mark.parametrize("table", ["family_member_invitations", "outbox_events"])
async def test_a_failure_of_one_leaves_neither(
    table: str, when: str, ann: Someone, family: str, database: Database, mail: Mailbox
) -> None:
    email = address()
    with fault(database, table, when, family):
        response = await ann.post(INVITE, familyId=family, email=email, role="CHILD")
        assert database.invitations(family) == []
        assert database.records(family) == []
    assert response.json()["errors"] == [
        {
            "message": "internal error",
            "locations": [{"line": 3, "column": 3}],
            "path": ["answer"],
            "extensions": {"code": "INTERNAL"},
        }
    ]
    assert response.json()["data"] is None
    answer = await ann.invite(family, email)
    assert answer["__typename"] == "InviteFamilyMemberByEmailPayload"
    assert len(await mail.payloads(family)) == len(database.records(family)) == 1


async def test_what_went_wrong_is_in_the_log_and_the_request_is_not(
    ann: Someone, family: str, database: Database, server: Server
) -> None:
    secret = f"secret.{family}@example.com"
    document = """mutation {{ inviteFamilyMemberByEmail(
        input: {{familyId: "{}", email: "{}", role: CHILD}}) {{ __typename }} }}"""
    with fault(database, "outbox_events", "INITIALLY DEFERRED", family):
        response = await ann.post(document.format(family, secret))
    assert "out of order" not in response.text
    assert "unexpected error at inviteFamilyMemberByEmail" in server.command.err
    assert "RaiseError: out of order" in server.command.err
    assert secret not in server.command.err
