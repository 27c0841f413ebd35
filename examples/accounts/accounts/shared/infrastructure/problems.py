"""Error responses: a status code and a `detail`."""

import logging

from fastapi import FastAPI, Request, status
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from postroom import database_outage
from pydantic import BaseModel
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

log = logging.getLogger(__name__)

OUTAGES = (DBAPIError, PoolTimeoutError, OSError)
"""The errors that an unavailable database can cause."""


class Problem(BaseModel):
    """The body of an error response."""

    detail: str


def install(app: FastAPI) -> None:
    """Add the handlers of errors that any route can raise."""
    app.add_exception_handler(RequestValidationError, invalid)
    for error in OUTAGES:
        app.add_exception_handler(error, unavailable)


async def invalid(_: Request, error: Exception) -> JSONResponse:
    """Answer 422 with what is wrong, without the values: one may be a password."""
    if not isinstance(error, RequestValidationError):
        raise error
    told = [{key: each[key] for key in ("type", "loc", "msg")} for each in error.errors()]
    return JSONResponse({"detail": told}, status.HTTP_422_UNPROCESSABLE_CONTENT)


async def unavailable(request: Request, error: Exception) -> JSONResponse:
    """Answer 503 if the database is unavailable; raise any other error again."""
    if not database_outage(error):
        raise error
    cause = getattr(error, "orig", error)  # without the statement, which SQLAlchemy adds
    log.warning(
        "the database is unavailable for %s %s: %r", request.method, request.url.path, cause
    )
    detail = "The database is unavailable. Please try again later."
    return JSONResponse({"detail": detail}, status.HTTP_503_SERVICE_UNAVAILABLE)
