"""An account that is nobody else's, and what its user does by HTTP."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias
from uuid import uuid4

import httpx

Json: TypeAlias = dict[str, Any]

SOON = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)


def new_id() -> str:
    return str(uuid4())


@dataclass(frozen=True, slots=True)
class Account:
    """Asks as one user of one account; what it makes, it makes by the interface."""

    client: httpx.AsyncClient
    id: str = field(default_factory=new_id)
    user_id: str = field(default_factory=new_id)

    @property
    def headers(self) -> dict[str, str]:
        return {"X-User-Id": self.user_id, "X-Account-Id": self.id}

    async def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send a request as this user."""
        headers = {**self.headers, **more.pop("headers", {})}
        return await self.client.request(method, path, headers=headers, **more)

    async def get(self, path: str, **query: str | int) -> Json:
        answer = await self.ask("GET", path, params=query)
        return _body(answer, 200)

    async def post(self, path: str, **body: Any) -> Json:
        """Create something, and give it, for it worked."""
        return _body(await self.ask("POST", path, json=body), 201)

    async def patch(self, path: str, **body: Any) -> Json:
        """Change something, and give it, for it worked."""
        return _body(await self.ask("PATCH", path, json=body), 200)

    async def refused(self, method: str, path: str, **body: Any) -> Json:
        """Send what cannot be, and give the one thing that is wrong with it."""
        [problem] = _body(await self.ask(method, path, json=body), 422)["detail"]
        return dict(problem)

    async def channel(self) -> str:
        return str((await self.post("/channels", name="SMS", kind="sms"))["id"])

    async def template(self) -> str:
        return str((await self.post("/templates", name="Hello", body="Hello!"))["id"])

    async def group(self, *contacts: str) -> str:
        return str((await self.post("/contact-groups", name="All", contacts=contacts))["id"])

    async def group_message_body(self) -> Json:
        """Give the body of a POST that works."""
        groups = [await self.group("ann", "bob")]
        return {"channel_id": await self.channel(), "body": "Hi", "contact_group_ids": groups}

    async def group_message(self, *statuses: str) -> Json:
        """Create a group message, and have it go through some statuses."""
        message = await self.post("/group-messages", **await self.group_message_body())
        for status in statuses:
            message = await self.patch(f"/group-messages/{message['id']}", status=status)
        return message

    async def scheduled_message_body(self, **more: Any) -> Json:
        """Give the body of a POST that works, or that differs from it."""
        body = {"channel_id": await self.channel(), "body": "Hi", "send_type": "single"}
        return {**body, "recipient": "ann", "scheduled_at": SOON.isoformat(), **more}

    async def scheduled_message(self, *statuses: str, **more: Any) -> Json:
        """Create a scheduled message, and have it go through some statuses."""
        body = await self.scheduled_message_body(**more)
        message = await self.post("/scheduled-messages", **body)
        for status in statuses:
            message = await self.patch(f"/scheduled-messages/{message['id']}", status=status)
        return message


def _body(answer: httpx.Response, status: int) -> Json:
    assert answer.status_code == status, answer.text
    return dict(answer.json())
