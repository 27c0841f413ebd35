"""Log-in by a token, the cookie, a limit to guessing."""

import base64
import hashlib
import hmac
import json
import time
from collections import deque
from collections.abc import Callable
from functools import cache
from ipaddress import ip_address, ip_network
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from postroom.console.access import Role, Visitor, read_name
from postroom.errors import ConfigurationError

COOKIE: Final = "postroom_console"
LASTS: Final = 12 * 3600
"""Seconds for which a log-in is good."""
SHORTEST: Final = 16
"""Characters of the shortest token: a shorter one can be guessed."""
GUESSES: Final = 5
"""Wrong tokens that a client may send in a minute."""
MANY: Final = 50
"""From so many wrong tokens of all clients on, each may send one in a minute."""
REMEMBERED: Final = 5000
"""Wrong tokens that are counted, so that many clients do not fill the memory."""
MINUTE: Final = 60.0

Clock = Callable[[], float]


class TokenAccess:
    """Visitors with the token of a role may come in, by a log-in or by a header."""

    has_login = True
    refusal = "Log in first."

    def __init__(
        self, token: str | None, reader_token: str | None, *, clock: Clock = time.time
    ) -> None:
        tokens = {Role.OPERATOR: token, Role.READER: reader_token}
        self._tokens = {role: each.strip() for role, each in tokens.items() if each is not None}
        _check(self._tokens)
        self._keys = {role: signing_key(each) for role, each in self._tokens.items()}
        self._clock = clock
        self.guesses = Guesses(clock)

    def role_of(self, token: str) -> Role | None:
        """Return the role that a token gives."""
        found = None
        for role, known in self._tokens.items():  # all of them: the time tells nothing
            if hmac.compare_digest(token.encode(), known.encode()):
                found = role
        return found

    async def visitor(self, request: Request) -> Visitor | None:
        """Read the header `Authorization: Bearer`, or else the cookie."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return self._read(request.cookies.get(COOKIE, ""))
        who = client_of(request)
        role = self.role_of(given.strip()) if self.guesses.allowed(who) else None
        if role is None:
            self.guesses.wrong(who)
            return None
        return Visitor(role, f"{role} token")

    def log_in(self, response: Response, request: Request, visitor: Visitor) -> None:
        """Add the cookie of a visitor to a response."""
        until = self._clock() + LASTS
        content = {"role": visitor.role, "name": visitor.name, "until": until}
        body = base64.urlsafe_b64encode(json.dumps(content).encode()).decode()
        response.set_cookie(
            COOKIE,
            f"{body}.{self._signature(visitor.role, body)}",
            max_age=LASTS,
            path=request.scope.get("root_path", "") or "/",
            httponly=True,
            samesite="lax",
            secure=request.scope.get("scheme") == "https",
        )

    def log_out(self, response: Response, request: Request) -> None:
        """Have the browser forget the cookie."""
        response.delete_cookie(COOKIE, path=request.scope.get("root_path", "") or "/")

    def _read(self, cookie: str) -> Visitor | None:
        """Return who a cookie was given to, if it is ours and still good."""
        body, _, signature = cookie.partition(".")
        for role in self._tokens:
            expected = self._signature(role, body)
            if hmac.compare_digest(signature.encode(), expected.encode()):
                return self._holder(role, body)
        return None

    def _holder(self, role: Role, body: str) -> Visitor | None:
        """Read a cookie that was signed with the token of a role, which may be somebody's own."""
        try:
            content = json.loads(base64.urlsafe_b64decode(body))
            is_good = content["role"] == role and content["until"] > self._clock()
            return Visitor(role, read_name(content["name"])) if is_good else None
        except (ValueError, LookupError, TypeError, RecursionError):
            return None

    def _signature(self, role: Role, body: str) -> str:
        return hmac.new(self._keys[role], f"{COOKIE}:{body}".encode(), "sha256").hexdigest()


class Guesses:
    """Counts wrong tokens, by client and in all, over the last minute.

    However many clients guess, one that has not guessed wrong may log in: nobody can lock out all.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wrong: deque[tuple[float, str]] = deque(maxlen=REMEMBERED)

    def allowed(self, client: str) -> bool:
        """Return whether a client may try again."""
        while self._wrong and self._wrong[0][0] <= self._clock() - MINUTE:
            self._wrong.popleft()
        own = sum(each == client for _, each in self._wrong)
        return own < (GUESSES if len(self._wrong) < MANY else 1)

    def wrong(self, client: str) -> None:
        """Note a wrong token."""
        if self.allowed(client):
            self._wrong.append((self._clock(), client))


def client_of(request: Request) -> str:
    """Name the client of a request by its address; one of IPv6 has a network of them, a /64."""
    host = request.client.host if request.client is not None else "unknown"
    try:
        address = ip_address(host)
    except ValueError:
        return host
    is_wide = address.version == 6 and address.ipv4_mapped is None
    return str(ip_network((host.partition("%")[0], 64), strict=False)) if is_wide else host


@cache
def signing_key(token: str) -> bytes:
    """Derive the key that cookies are signed with.

    From the token: a new token ends the log-ins of the old one, in every process. Slowly: cookies
    do not count as wrong tokens, so that a guess by a signed cookie has to cost its sender time.
    """
    return hashlib.scrypt(token.encode(), salt=COOKIE.encode(), n=2**14, r=8, p=1)


def _check(tokens: dict[Role, str]) -> None:
    for role, token in tokens.items():
        if len(token) < SHORTEST:
            raise ConfigurationError(
                f"the token of the {role} is too short: it needs {SHORTEST} characters. Make one"
                " with: python -c 'import secrets; print(secrets.token_urlsafe(24))'"
            )
    if len(set(tokens.values())) < len(tokens):
        raise ConfigurationError("the tokens of the operator and of the reader are the same.")
