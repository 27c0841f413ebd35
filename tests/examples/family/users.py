"""Users of the family hub, as a GraphQL client sees them."""

from typing import Any
from uuid import uuid4

import httpx

CREATE = (
    'mutation { answer: createFamily(name: "Smith") { ... on CreateFamilyPayload { familyId } } }'
)
INVITE = """
mutation ($familyId: UUID!, $email: String!) {
  answer: inviteFamilyMemberByEmail(input: {familyId: $familyId, email: $email, role: MEMBER}) {
    ... on InviteFamilyMemberByEmailPayload {
      invitation { id email role status expiresAt invitedByUserId }
    }
  }
}"""
ACCEPT = """
mutation ($token: String!) {
  answer: acceptFamilyMemberInvitation(token: $token) { __typename }
}"""

Answer = dict[str, Any]


def address() -> str:
    """Make an address that is nobody else's."""
    return f"{uuid4().hex}@example.com"


class Someone:
    """A user whom the gateway has signed in. Keeps all that was answered."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self.id, self.email = str(uuid4()), address()
        self.headers = {"X-User-Id": self.id, "X-User-Email": self.email}
        self.answered = ""

    async def ask(self, document: str, **variables: str) -> Answer:
        body = {"query": document, "variables": variables}
        response = await self._http.post("/graphql", json=body, headers=self.headers)
        self.answered += response.text
        assert response.status_code == 200, response.text
        answer: Answer = (response.json()["data"] or {}).get("answer", {})
        return answer

    async def create_family(self) -> str:
        return str((await self.ask(CREATE))["familyId"])

    async def invite(self, family: str) -> Answer:
        """Invite a new address, and give the invitation."""
        invitation: Answer = (await self.ask(INVITE, familyId=family, email=address()))[
            "invitation"
        ]
        return invitation
