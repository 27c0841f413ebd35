"""Every request passes here: is its user known, and allowed to do that?

It refuses changes from other sites, finds out who asks, and adds the security headers.
"""

from typing import Final
from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from postroom.console.access import Access, Role, Visitor
from postroom.console.pages.errors import explain, refuse
from postroom.console.rendering import path_of

SAFE: Final = ("GET", "HEAD")
LOGIN: Final = "/login"
FOR_READERS: Final = (LOGIN, "/logout")
"""What readers may POST to."""
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Gate:
    """Middleware around all pages."""

    def __init__(self, app: ASGIApp, *, access: Access, read_only: bool) -> None:
        self._app, self._access, self._read_only = app, access, read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or refuse it."""
        if scope["type"] == "websocket":  # there is none here
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        sending = _Sending(send, is_static=path_of(request).startswith("/static/"))
        try:
            refused = await self._refused(request)
            if refused is None:
                await self._app(scope, receive, sending)
            else:
                await refused(scope, receive, sending)
        except Exception as error:
            if sending.has_begun:
                raise
            response = await explain(request, error)
            await response(scope, receive, sending)

    async def _refused(self, request: Request) -> Response | None:
        """Return the answer to a request that must not be served; None for one that may."""
        path = path_of(request)
        request.state.postroom_visitor = None
        if request.method not in (*SAFE, "POST"):
            return refuse(request, 405, "This address answers GET and POST.")
        is_change = request.method not in SAFE
        if is_change and not is_same_origin(request):
            text = "This request comes from another site, or from no page at all. Nothing was done."
            return refuse(request, 403, text)
        if path.startswith("/static/"):
            return None
        visitor = request.state.postroom_visitor = await self._visitor(request)
        if visitor is None and not (path == LOGIN and self._access.has_login):
            return self._unknown(request, path)
        if is_change and path not in FOR_READERS and not _can_change(visitor):
            return refuse(request, 403, "You may not change anything here. Nothing was done.")
        return None

    async def _visitor(self, request: Request) -> Visitor | None:
        visitor = await self._access.visitor(request)
        if visitor is not None and self._read_only:
            return Visitor(Role.READER, visitor.name)
        return visitor

    def _unknown(self, request: Request, path: str) -> Response:
        if not self._access.has_login:
            return refuse(request, 403, self._access.refusal)
        if request.method not in SAFE or "authorization" in request.headers:
            return refuse(request, 401, "Log in first. Nothing was done.")
        given = request.scope["query_string"].decode("latin-1")
        query = f"?{given}" if given else ""
        wanted = "" if path == "/" else f"?next={quote(path + query, safe='')}"
        root = request.scope.get("root_path", "")
        return RedirectResponse(f"{root}/login{wanted}", status_code=303)


class _Sending:
    """Sends a response with the security headers, and knows whether it has begun."""

    def __init__(self, send: Send, *, is_static: bool) -> None:
        self._send, self._is_static = send, is_static
        self.has_begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS)
            if not self._is_static:
                headers["cache-control"] = "no-store"
        await self._send(message)


def is_same_origin(request: Request) -> bool:
    """Return whether a browser sent a request from a page of this console's own origin.

    Browsers set these headers themselves; no page can change them. One without either is refused.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    scheme, _, host = request.headers.get("origin", "").partition("://")
    return bool(scheme and host) and host == request.headers.get("host")


def _can_change(visitor: Visitor | None) -> bool:
    return visitor is not None and visitor.can_change
