"""Value objects: what ids, addresses, roles and tokens are, wherever they appear."""

from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from secrets import token_urlsafe
from typing import Self
from uuid import UUID, uuid4

from email_validator import EmailNotValidError, validate_email

from family.domain.errors import InvalidEmailError, InvalidFamilyNameError

MAX_NAME_LENGTH = 100
MAX_EMAIL_LENGTH = 254


@dataclass(frozen=True, slots=True)
class Identifier:
    """Base of the ids, so that one cannot be taken for another."""

    value: UUID

    @classmethod
    def new(cls) -> Self:
        return cls(uuid4())


class FamilyId(Identifier):
    """Of a family."""


class UserId(Identifier):
    """Of a user, in a family or not."""


class InvitationId(Identifier):
    """Of an invitation."""


@dataclass(frozen=True, slots=True)
class Email:
    """An address. `Email.parse` takes what users type."""

    value: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Check an address and write it in lower case, so that equal ones are alike."""
        if len(text) > MAX_EMAIL_LENGTH:
            raise InvalidEmailError  # before it is looked at: that takes long, for a long one
        try:
            checked = validate_email(text, check_deliverability=False)
        except (EmailNotValidError, UnicodeError) as error:
            raise InvalidEmailError from error
        return cls(checked.normalized.casefold())


@dataclass(frozen=True, slots=True)
class FamilyName:
    """What a family calls itself. `FamilyName.parse` takes what users type."""

    value: str

    @classmethod
    def parse(cls, text: str) -> Self:
        name = text.strip()
        if not (name.isprintable() and 1 <= len(name) <= MAX_NAME_LENGTH):
            raise InvalidFamilyNameError
        return cls(name)


class RoleName(StrEnum):
    """The roles there are."""

    OWNER = "Owner"
    ADMIN = "Admin"
    MEMBER = "Member"
    CHILD = "Child"


@dataclass(frozen=True, slots=True)
class Role:
    """What a member is in the family, and so what they may do."""

    value: RoleName

    @classmethod
    def named(cls, name: str) -> Self:
        return cls(RoleName(name))

    @property
    def invites(self) -> frozenset[RoleName]:
        """As whom somebody with this role may invite others."""
        return _INVITES[self.value]


_INVITES = {
    RoleName.OWNER: frozenset({RoleName.ADMIN, RoleName.MEMBER, RoleName.CHILD}),
    RoleName.ADMIN: frozenset({RoleName.MEMBER, RoleName.CHILD}),
    RoleName.MEMBER: frozenset[RoleName](),
    RoleName.CHILD: frozenset[RoleName](),
}


@dataclass(frozen=True, slots=True, repr=False)
class InvitationToken:
    """Lets whoever holds it accept an invitation. It is a secret, and does not show itself."""

    value: str

    @classmethod
    def generate(cls) -> Self:
        return cls(token_urlsafe(32))

    @property
    def hash(self) -> str:
        """What the invitation keeps instead: enough to recognise the token, not to make it."""
        return sha256(self.value.encode(errors="surrogatepass")).hexdigest()

    def __repr__(self) -> str:
        return "InvitationToken(***)"


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who is signed in."""

    id: UserId
    email: Email
