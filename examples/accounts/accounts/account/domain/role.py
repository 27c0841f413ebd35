"""What an account may do."""

from enum import StrEnum


class AccountRole(StrEnum):
    USER = "user"
    ADMIN = "admin"
