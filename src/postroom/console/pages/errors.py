"""The pages for errors: what went wrong, and what to do."""

import logging

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from postroom.console.rendering import page
from postroom.console.state import state_of
from postroom.database.errors import Kind, describe, is_table_missing, kind_of
from postroom.errors import (
    ActionError,
    InspectionTimeoutError,
    RecordNotFoundError,
    SchemaError,
    error_text,
    traceable,
)
from postroom.tables.check import check_schema

logger = logging.getLogger("postroom.console")

TITLES = {400: "That does not work", 401: "Log in first", 403: "Not allowed", 404: "Not found"}


def refuse(request: Request, status: int, text: str) -> Response:
    """Make the page that says why a request is not served."""
    title = TITLES.get(status, "Something is wrong")
    return page(request, "error.html", status=status, title=title, text=text)


async def explain(request: Request, error: Exception) -> Response:
    """Make the page for an error. One that nobody expected is logged, too."""
    match error:
        case HTTPException():
            return refuse(request, error.status_code, error.detail)
        case ClientDisconnect():  # nobody reads this
            return refuse(request, 400, "The form was not sent to its end.")
        case RecordNotFoundError():
            return refuse(request, 404, _sentence(str(error)))
        case ActionError():
            return refuse(request, 409, _sentence(str(error)))
        case InspectionTimeoutError():
            return refuse(request, 503, _sentence(str(error)))
    is_known = request.state.postroom_visitor is not None  # strangers are told no details
    if is_known and is_table_missing(error) and (drift := await _drift(request)) is not None:
        return refuse(request, 503, drift)
    if kind_of(error) is not Kind.BUG:
        reason = f": {describe(error)}" if is_known else ""
        return refuse(request, 503, f"The database cannot be used{reason}.")
    logger.error("postroom: the console failed: %s", error_text(error), exc_info=traceable(error))
    return refuse(request, 500, "The console failed; the log of its process says why.")


async def _drift(request: Request) -> str | None:
    """Say what is wrong with the tables."""
    state = state_of(request)
    try:
        async with state.engine.connect() as connection:
            await connection.run_sync(check_schema, state.outbox.tables)
    except SchemaError as error:
        return error.drift[0]
    return None


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
