"""An account, and what its user does by HTTP."""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

import httpx

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Account:
    """A user of an account that no other test has."""

    client: httpx.AsyncClient
    id: UUID = field(default_factory=uuid4)
    user_id: UUID = field(default_factory=uuid4)

    async def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        headers = {"X-User-Id": str(self.user_id), "X-Account-Id": str(self.id)}
        return await self.client.request(method, path, headers=headers, **more)

    async def get(self, path: str) -> Json:
        return _body(await self.ask("GET", path), 200)

    async def post(self, path: str, **body: Any) -> Json:
        return _body(await self.ask("POST", path, json=body), 201)

    async def patch(self, path: str, **body: Any) -> Json:
        return _body(await self.ask("PATCH", path, json=body), 200)

    async def group_message(self, *statuses: str, **more: Any) -> Json:
        """Create a message to Ann and Bob, and take it through some statuses."""
        group = await self.post("/contact-groups", name="All", contacts=["ann", "bob"])
        channel = await self.post("/channels", name="SMS", kind="sms")
        body = {"channel_id": channel["id"], "contact_group_ids": [group["id"]], "body": "Hi"}
        message = await self.post("/group-messages", **body, **more)
        for status in statuses:
            message = await self.patch(f"/group-messages/{message['id']}", status=status)
        return message

    async def scheduled_message(self, scheduled_at: str, **more: Any) -> Json:
        """Create a message to Ann at a time."""
        channel = await self.post("/channels", name="SMS", kind="sms")
        body = {"channel_id": channel["id"], "send_type": "single", "recipient": "ann"}
        body |= {"body": "Hi", "scheduled_at": scheduled_at}
        return await self.post("/scheduled-messages", **body, **more)

    async def recipients(self, message: Json) -> list[str]:
        """Return who was sent a message, once for each time."""
        listed = await self.get(f"/deliveries?message_id={message['id']}")
        return sorted(each["recipient"] for each in listed["items"])

    async def status(self, message: Json) -> str:
        return str((await self.get(f"/group-messages/{message['id']}"))["status"])


def _body(answer: httpx.Response, status: int) -> Json:
    assert answer.status_code == status, answer.text
    return dict(answer.json())
