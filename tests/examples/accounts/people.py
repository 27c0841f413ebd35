"""People who sign up, each of them new."""

from typing import Any
from uuid import uuid4

import httpx

PASSWORD = "correct horse battery staple"


def new_email(name: str = "ann") -> str:
    return f"{name}.{uuid4().hex}@example.com"


def sign_up_body(email: str | None = None, password: str = PASSWORD) -> dict[str, str]:
    return {"email": email or new_email(), "password": password}


async def sign_up(client: httpx.AsyncClient, email: str | None = None) -> dict[str, Any]:
    """Sign up, and give the answer, which is that it worked."""
    answer = await client.post("/sign-up", json=sign_up_body(email))
    assert answer.status_code == 201, answer.text
    account: dict[str, Any] = answer.json()
    return account
