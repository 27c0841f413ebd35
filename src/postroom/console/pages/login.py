"""The log-in by a token."""

import logging

from starlette.requests import Request
from starlette.responses import Response

from postroom.console.access import Visitor, read_name
from postroom.console.forms import read_form
from postroom.console.rendering import inner_path, page, redirect
from postroom.console.state import state_of
from postroom.console.tokens import TokenAccess, client_of

logger = logging.getLogger("postroom.console")


async def login_page(request: Request) -> Response:
    """Ask for the token."""
    if request.state.postroom_visitor is not None:
        return redirect(request, inner_path(request.query_params.get("next")))
    return _ask(request, request.query_params.get("next"))


async def log_in(request: Request) -> Response:
    """Take the token, and give a cookie for it."""
    access, form = state_of(request).access, await read_form(request)
    wanted, client = form.get("next"), client_of(request)
    if not isinstance(access, TokenAccess):
        return redirect(request, "/")
    if not access.guesses.allowed(client):
        logger.warning("postroom: too many wrong tokens from %s: the log-in waits", client)
        problem = "Too many wrong tokens. Try again in a minute."
        return _ask(request, wanted, problem, status=429)
    role = access.role_of(form.get("token", "").strip())
    if role is None:
        access.guesses.wrong(client)
        return _ask(request, wanted, "Wrong token.", status=403)
    response = redirect(request, inner_path(wanted))
    access.log_in(response, request, Visitor(role, read_name(form.get("name")) or f"{role} token"))
    return response


async def log_out(request: Request) -> Response:
    """Have the browser forget the cookie."""
    access = state_of(request).access
    response = redirect(request, "/login" if access.has_login else "/")
    if isinstance(access, TokenAccess):
        access.log_out(response, request)
    return response


def _ask(
    request: Request, wanted: str | None, problem: str | None = None, status: int = 200
) -> Response:
    response = page(request, "login.html", status=status, problem=problem, next=inner_path(wanted))
    if status == 429:
        response.headers["retry-after"] = "60"
    return response
