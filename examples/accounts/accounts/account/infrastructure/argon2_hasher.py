"""Passwords, hashed by Argon2."""

import asyncio

from argon2 import PasswordHasher

from accounts.account.domain.password import Password


class Argon2PasswordHasher:
    """A `PasswordHasher`. It works in a thread, for it takes its time on purpose."""

    def __init__(self) -> None:
        self._argon2 = PasswordHasher()

    async def hash(self, password: Password) -> str:
        return await asyncio.to_thread(self._argon2.hash, password.text)
