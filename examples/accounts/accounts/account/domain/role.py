"""The roles of accounts."""

from enum import StrEnum


class AccountRole(StrEnum):
    USER = "user"
    ADMIN = "admin"
