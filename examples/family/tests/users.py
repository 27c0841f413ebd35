"""Users of the application, as a GraphQL client sees them."""

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
INVITE = """
mutation ($family: UUID!, $email: String!, $role: Role!) {
  answer: inviteFamilyMemberByEmail(input: {familyId: $family, email: $email, role: $role}) {
    __typename
    ... on InviteFamilyMemberByEmailPayload { invitation { id email role status } }
    ... on Error { message }
  }
}"""
RESEND = """
mutation ($invitation: UUID!) {
  answer: resendFamilyMemberInvitation(invitationId: $invitation) {
    __typename
    ... on Error { message }
  }
}"""
ACCEPT = """
mutation ($token: String!) {
  answer: acceptFamilyMemberInvitation(token: $token) { __typename ... on Error { message } }
}"""
LOOK = """
query ($family: UUID!) {
  answer: family(id: $family) {
    __typename
    ... on Family {
      name
      members { userId email role }
      invitations { id email role status }
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
        return await self.ask(INVITE, family=family, email=email or address(), role=role)

    async def invited(self, family: str) -> str:
        """Invite a new address, and give the invitation's id."""
        return str((await self.invite(family))["invitation"]["id"])

    async def resend(self, invitation: str) -> Answer:
        return await self.ask(RESEND, invitation=invitation)

    async def accept(self, token: str) -> Answer:
        return await self.ask(ACCEPT, token=token)

    async def look(self, family: str) -> Answer:
        return await self.ask(LOOK, family=family)
