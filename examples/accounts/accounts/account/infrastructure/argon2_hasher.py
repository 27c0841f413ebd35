"""Passwords, hashed by Argon2."""

import asyncio

from argon2 import PasswordHasher

from accounts.account.domain.password import Password


class Argon2PasswordHasher:
    """A `PasswordHasher`. It hashes in a thread, because Argon2 is slow on purpose."""

    def __init__(self) -> None:
        self._argon2 = PasswordHasher()

    async def hash(self, password: Password) -> str:
        return await asyncio.to_thread(self._argon2.hash, password.text)
