"""What goes wrong, as an answer: a status and a `detail`."""

import logging

from fastapi import FastAPI, Request, status
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from postroom import database_outage

log = logging.getLogger(__name__)

OUTAGES = (DBAPIError, PoolTimeoutError, OSError)
"""What a database that is away may be noticed by."""


class Problem(BaseModel):
    """The body of an answer that is not what was asked for."""

    detail: str


def install(app: FastAPI) -> None:
    """Have the application answer for the errors that any of its routes may raise."""
    app.add_exception_handler(RequestValidationError, invalid)
    for error in OUTAGES:
        app.add_exception_handler(error, unavailable)


async def invalid(_: Request, error: Exception) -> JSONResponse:
    """Say what is wrong with a request, without repeating what was in it: a password, say."""
    assert isinstance(error, RequestValidationError)
    told = [{key: each[key] for key in ("type", "loc", "msg")} for each in error.errors()]
    return JSONResponse({"detail": told}, status.HTTP_422_UNPROCESSABLE_CONTENT)


async def unavailable(request: Request, error: Exception) -> JSONResponse:
    """Answer for a database that is away; any other error is a bug, and shown as one."""
    if not database_outage(error):
        raise error
    cause = getattr(error, "orig", error)  # without the statement, which SQLAlchemy adds
    log.warning("the database is away for %s %s: %r", request.method, request.url.path, cause)
    detail = "The database is away. Please try again later."
    return JSONResponse({"detail": detail}, status.HTTP_503_SERVICE_UNAVAILABLE)
