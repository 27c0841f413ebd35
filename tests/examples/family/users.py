"""Users of the family hub, as a GraphQL client sees them."""

from typing import Any
from uuid import uuid4

import httpx

CREATE = """
mutation ($name: String!) {
  answer: createFamily(name: $name) {
    __typename
    ... on CreateFamilyPayload { familyId }
    ... on Error { message }
  }
}"""
INVITATION = "invitation { id email role status expiresAt invitedByUserId }"
INVITE = f"""
mutation ($familyId: UUID!, $email: String!, $role: Role!) {{
  answer: inviteFamilyMemberByEmail(input: {{familyId: $familyId, email: $email, role: $role}}) {{
    __typename
    ... on InviteFamilyMemberByEmailPayload {{ {INVITATION} }}
    ... on Error {{ message }}
  }}
}}"""
RESEND = f"""
mutation ($invitationId: UUID!) {{
  answer: resendFamilyMemberInvitation(invitationId: $invitationId) {{
    __typename
    ... on ResendFamilyMemberInvitationPayload {{ {INVITATION} }}
    ... on Error {{ message }}
  }}
}}"""
ACCEPT = """
mutation ($token: String!) {
  answer: acceptFamilyMemberInvitation(token: $token) {
    __typename
    ... on AcceptFamilyMemberInvitationPayload { familyId }
    ... on Error { message }
  }
}"""
LOOK = """
query ($id: UUID!) {
  answer: family(id: $id) {
    __typename
    ... on Family {
      id
      name
      members { userId email role }
      invitations { id email role status expiresAt invitedByUserId }
    }
    ... on Error { message }
  }
}"""

Answer = dict[str, Any]


def address() -> str:
    """Make an address that is nobody else's."""
    return f"{uuid4().hex}@example.com"


class Someone:
    """A user whom the gateway has signed in."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self.id, self.email = str(uuid4()), address()
        self.headers = {"X-User-Id": self.id, "X-User-Email": self.email}

    async def post(self, document: str, **variables: Any) -> httpx.Response:
        body = {"query": document, "variables": variables}
        return await self._http.post("/graphql", json=body, headers=self.headers)

    async def ask(self, document: str, **variables: Any) -> Answer:
        """Give the one answer to a document that nothing is wrong with."""
        response = await self.post(document, **variables)
        assert response.status_code == 200, response.text
        assert "errors" not in response.json(), response.text
        answer: Answer = response.json()["data"]["answer"]
        return answer

    async def create_family(self) -> str:
        return str((await self.ask(CREATE, name="Smith"))["familyId"])

    async def invite(self, family: str, email: str | None = None, role: str = "MEMBER") -> Answer:
        return await self.ask(INVITE, familyId=family, email=email or address(), role=role)

    async def resend(self, invitation: str) -> Answer:
        return await self.ask(RESEND, invitationId=invitation)

    async def accept(self, token: str) -> Answer:
        return await self.ask(ACCEPT, token=token)

    async def look(self, family: str) -> Answer:
        return await self.ask(LOOK, id=family)
