"""An account, and what its user does by HTTP."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx

Json = dict[str, Any]

GROUP_MESSAGES, SCHEDULED_MESSAGES = "/group-messages", "/scheduled-messages"
TOMORROW = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)


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

    async def change(self, message: Json, **changes: Any) -> Json:
        """Change a message; return it as it is now."""
        return _body(await self.ask("PATCH", path_of(message), json=changes), 200)

    async def body(self, path: str, **more: Any) -> Json:
        """Return the body of a POST that creates a message, or that differs from it."""
        channel = await self.post("/channels", name="SMS", kind="sms")
        body = {"channel_id": channel["id"], "body": "Hi", **more}
        if path == SCHEDULED_MESSAGES:
            to_ann = {"send_type": "single", "recipient": "ann"}
            return {"scheduled_at": TOMORROW.isoformat(), **to_ann, **body}
        group = await self.post("/contact-groups", name="All", contacts=["ann", "bob"])
        return {"contact_group_ids": [group["id"]], **body}

    async def group_message(self, *statuses: str, **more: Any) -> Json:
        """Create a message to Ann and Bob, and take it through some statuses."""
        return await self._message(GROUP_MESSAGES, *statuses, **more)

    async def scheduled_message(self, *statuses: str, **more: Any) -> Json:
        """Create a message to Ann for tomorrow, and take it through some statuses."""
        return await self._message(SCHEDULED_MESSAGES, *statuses, **more)

    async def _message(self, path: str, *statuses: str, **more: Any) -> Json:
        message = await self.post(path, **await self.body(path, **more))
        for status in statuses:
            message = await self.change(message, status=status)
        return message

    async def recipients(self, message: Json) -> list[str]:
        """Return who was sent a message, once for each time."""
        listed = await self.get(f"/deliveries?message_id={message['id']}")
        return sorted(each["recipient"] for each in listed["items"])

    async def status(self, message: Json) -> str:
        return str((await self.get(path_of(message)))["status"])


def path_of(message: Json) -> str:
    path = SCHEDULED_MESSAGES if "send_type" in message else GROUP_MESSAGES
    return f"{path}/{message['id']}"


def _body(answer: httpx.Response, status: int) -> Json:
    assert answer.status_code == status, answer.text
    return dict(answer.json())
