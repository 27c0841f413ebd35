"""The two roles of users, readers and operators, and how each is granted."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from starlette.requests import Request

from postroom.errors import ConfigurationError

FORWARDED: Final = ("forwarded", "via", "x-forwarded-", "x-real-ip")
"""How headers begin that only a proxy adds: the visitor may be on another machine."""
MAX_NAME: Final = 100


class Role(StrEnum):
    """What a visitor may do."""

    READER = "reader"
    """See everything, change nothing."""
    OPERATOR = "operator"
    """Retry, skip, discard, replay, pause, resume and drain, too."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks. `name` is for the audit; None: the user of this process."""

    role: Role
    name: str | None = None

    @property
    def can_change(self) -> bool:
        """Whether they may change something."""
        return self.role is Role.OPERATOR


class Access(Protocol):
    """Decides who may come in."""

    has_login: bool
    """Whether there is a page to log in on."""
    refusal: str
    """What somebody reads who may not come in, and cannot log in here."""

    async def visitor(self, request: Request) -> Visitor | None:
        """Return who asks; None for somebody who may not come in."""


Answer = Role | str | None
Authorize = Callable[[Request], Answer | Awaitable[Answer]]
"""Returns "reader" or "operator"; None for somebody who may not come in."""
NameUser = Callable[[Request], str | Awaitable[str]]


class ApplicationAccess:
    """The application that mounts the console decides."""

    has_login = False
    refusal = "You have no access to this console. Log in to the application, or ask for access."

    def __init__(self, authorize: Authorize, user_name: NameUser | None) -> None:
        self._authorize, self._user_name = authorize, user_name

    async def visitor(self, request: Request) -> Visitor | None:
        """Ask the application."""
        answer = await _called(self._authorize, request)
        if answer is None:
            return None
        try:
            role = Role(answer)
        except ValueError:
            raise ConfigurationError(
                f"authorize returned {answer!r}. It has to return 'reader', 'operator' or None."
            ) from None
        name = None if self._user_name is None else await _called(self._user_name, request)
        return Visitor(role, read_name(name))


class LocalAccess:
    """Visitors on this machine, with no proxy in between. They are operators."""

    has_login = False
    refusal = (
        "This console has no token and no authorize, so it answers requests from its own machine"
        " only, by the address localhost. Give console(…, authorize=…) or a token."
    )

    async def visitor(self, request: Request) -> Visitor | None:
        """Look at where a request comes from, and which name it was sent to."""
        is_local = request.client is not None and is_loopback(request.client.host)
        is_direct = not any(name.startswith(FORWARDED) for name in request.headers)
        # Another site can have its own name point to this machine; then its name is in Host. A
        # proxy that adds no header shows in the page's own address, or by its old HTTP.
        urls = [f"//{request.headers.get('host', '')}"]
        urls += filter(None, map(request.headers.get, ("origin", "referer")))
        is_own_name = all(is_loopback(host_of(url)) for url in urls)
        is_current = request.scope.get("http_version") != "1.0"
        is_here = is_local and is_direct and is_own_name and is_current
        return Visitor(Role.OPERATOR) if is_here else None


def is_loopback(host: str) -> bool:
    """Return whether a name or an address is that of this machine itself."""
    name = host.strip("[]").partition("%")[0].lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def host_of(url: str) -> str:
    """Return the host of a URL; an empty text if it cannot be read."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def read_name(value: object) -> str | None:
    """Read the name that somebody has in the audit; None if there is none."""
    text = "" if value is None else str(value).replace("\0", "")
    return " ".join(text.split())[:MAX_NAME] or None


async def _called(function: Callable[[Request], Any], request: Request) -> Any:
    result = function(request)
    return await result if inspect.isawaitable(result) else result
