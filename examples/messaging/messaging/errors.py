"""The errors of requests, and the answers to them."""

import json
import logging
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from postroom import database_outage
from pydantic import BaseModel
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

log = logging.getLogger(__name__)


class Problem(BaseModel):
    """The answer to an error that is not about a field."""

    detail: str


PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The body is no JSON"},
    401: {"model": Problem, "description": "Nobody is known by these headers"},
    404: {"model": Problem, "description": "There is no such thing in this account"},
    503: {"model": Problem, "description": "The database cannot be used at the moment"},
}


class NotFoundError(Exception):
    """Raised when the account of the user has no such entity."""


class UnprocessableError(Exception):
    """Raised when a field of the body is well formed, but its value is not possible."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field


def answer_errors(app: FastAPI) -> None:
    """Answer each error with its status code. A 422 has the form of FastAPI's own."""
    app.add_exception_handler(NotFoundError, _not_found)
    app.add_exception_handler(UnprocessableError, _unprocessable)
    app.add_exception_handler(RequestValidationError, _invalid)
    for trouble in (DBAPIError, PoolTimeoutError, OSError):
        app.add_exception_handler(trouble, _database_trouble)


async def _not_found(request: Request, error: Exception) -> Response:
    return _answer(404, str(error))


async def _unprocessable(request: Request, error: Exception) -> Response:
    assert isinstance(error, UnprocessableError)
    return _answer(422, [_problem("unprocessable", ("body", error.field), str(error))])


async def _invalid(request: Request, error: Exception) -> Response:
    # Without the input: it may be large, secret, or nothing that JSON can hold.
    assert isinstance(error, RequestValidationError)
    return _answer(422, [_problem(e["type"], e["loc"], e["msg"]) for e in error.errors()])


async def _database_trouble(request: Request, error: Exception) -> Response:
    if not database_outage(error):
        raise error
    log.error("the database cannot be used: %s", str(error).partition("\n")[0])
    return _answer(503, "the database cannot be used at the moment: try again")


def _problem(kind: str, place: Sequence[str | int], message: str) -> dict[str, Any]:
    return {"type": kind, "loc": list(place), "msg": message}


def _answer(status: int, detail: object) -> Response:
    # ASCII, so that half a surrogate pair in the name of a field is no error of ours.
    return Response(json.dumps({"detail": detail}), status, media_type="application/json")
