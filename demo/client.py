"""Somebody who uses the application, by HTTP: sends messages, and one that is rolled back."""

import asyncio
from typing import Any
from uuid import uuid4

import httpx
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from demo.story import Names
from postroom.inspection import counted

STEPS = ("queued", "processing", "completed")
"""What happens to a message after it was created; each step is a request, and a record."""
ROLLED_BACK = "roll-back"
"""The id of the request that the database fails."""
FAULT = f"""
CREATE TRIGGER disk_full BEFORE INSERT ON outbox_events
WHEN json_extract(NEW.payload, '$.request_id') = '{ROLLED_BACK}'
BEGIN SELECT RAISE(ABORT, 'the disk is full'); END
"""


class Client:
    """Sends one message at a time."""

    def __init__(self, http: httpx.AsyncClient, engine: AsyncEngine, names: Names) -> None:
        self.rolled_back = 0
        """How many requests were rolled back."""
        self._http, self._engine, self._names = http, engine, names
        self._headers = {"X-User-Id": str(uuid4()), "X-Account-Id": str(uuid4())}
        self._one_at_a_time = asyncio.Lock()
        self._message: dict[str, Any] = {}

    async def prepare(self) -> None:
        """Create what a message needs; have the database fail one request, by its id."""
        channel = await self._post("/channels", name="Reminders", kind="sms")
        group = await self._post("/contact-groups", name="Choir", contacts=["+43 1", "+43 2"])
        self._message = {
            "channel_id": channel.json()["id"],
            "contact_group_ids": [group.json()["id"]],
            "body": "Rehearsal is at seven.",
        }
        async with self._engine.begin() as connection:
            await connection.execute(text(FAULT))

    async def send(self) -> str:
        """Create a message and take it through all its steps; return its name."""
        async with self._one_at_a_time:
            created = await self._post("/group-messages", **self._message)
            created.raise_for_status()
            message = created.json()["id"]
            for status in STEPS:
                changed = await self._request("PATCH", f"/group-messages/{message}", status=status)
                changed.raise_for_status()
            return self._names.name("group_message", message)

    async def roll_back(self) -> str:
        """Send a message whose record cannot be written; say what is in the database then."""
        async with self._one_at_a_time:
            before = await self._saved()
            headers = {"X-Request-Id": ROLLED_BACK}
            answer = await self._post("/group-messages", headers, **self._message)
            after = await self._saved()
        self.rolled_back += answer.is_error
        saved = f"{before}, as before" if before == after else f"{before} before, {after} after"
        return f"{answer.status_code} {answer.reason_phrase}; in the database: {saved}"

    async def _saved(self) -> str:
        async with self._engine.connect() as connection:
            counts = [
                await connection.scalar(text(f"SELECT count(*) FROM {table}"))
                for table in ("group_messages", "outbox_events")
            ]
        messages, records = counts
        return f"{counted(messages or 0, 'message')} and {counted(records or 0, 'record')}"

    async def _post(
        self, path: str, headers: dict[str, str] | None = None, **body: Any
    ) -> httpx.Response:
        return await self._request("POST", path, headers, **body)

    async def _request(
        self, method: str, path: str, headers: dict[str, str] | None = None, **body: Any
    ) -> httpx.Response:
        sent = self._headers | (headers or {})
        return await self._http.request(method, path, json=body, headers=sent)
