"""An account that is nobody else's, and what its user does by HTTP."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias
from uuid import uuid4

import httpx

Json: TypeAlias = dict[str, Any]

SOON = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Account:
    """Asks as one user of one account; what it makes, it makes by the interface."""

    client: httpx.AsyncClient
    id: str = field(default_factory=lambda: str(uuid4()))
    user_id: str = field(default_factory=lambda: str(uuid4()))

    async def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send a request as this user."""
        identity = {"X-User-Id": self.user_id, "X-Account-Id": self.id}
        headers = {**identity, **more.pop("headers", {})}
        return await self.client.request(method, path, headers=headers, **more)

    async def post(self, path: str, **body: Any) -> Json:
        """Create something, and give it, for it worked."""
        return _body(await self.ask("POST", path, json=body), 201)

    async def patch(self, message: Json, **changes: Any) -> Json:
        """Change a message, and give it, for it worked."""
        return _body(await self.ask("PATCH", path_of(message), json=changes), 200)

    async def body(self, path: str = "/group-messages", **more: Any) -> Json:
        """Give the body of a POST that works, or that differs from it."""
        channel = await self.post("/channels", name="SMS", kind="sms")
        body = {"channel_id": channel["id"], "body": "Hi", **more}
        if path == "/scheduled-messages":
            to_ann = {"send_type": "single", "recipient": "ann"}
            return {"scheduled_at": SOON.isoformat(), **to_ann, **body}
        group = await self.post("/contact-groups", name="All", contacts=["ann", "bob"])
        return {"contact_group_ids": [group["id"]], **body}

    async def group_message(self, *statuses: str) -> Json:
        """Create a group message, and have it go through some statuses."""
        return await self._message("/group-messages", *statuses)

    async def scheduled_message(self, *statuses: str, **more: Any) -> Json:
        """Create a scheduled message, and have it go through some statuses."""
        return await self._message("/scheduled-messages", *statuses, **more)

    async def _message(self, path: str, *statuses: str, **more: Any) -> Json:
        message = await self.post(path, **await self.body(path, **more))
        for status in statuses:
            message = await self.patch(message, status=status)
        return message


def path_of(message: Json) -> str:
    kind = "scheduled" if "send_type" in message else "group"
    return f"/{kind}-messages/{message['id']}"


def _body(answer: httpx.Response, status: int) -> Json:
    assert answer.status_code == status, answer.text
    return dict(answer.json())
