"""Reads the forms that pages send."""

from typing import Final
from urllib.parse import parse_qsl

from starlette.datastructures import ImmutableMultiDict
from starlette.exceptions import HTTPException
from starlette.requests import Request

MAX_BYTES: Final = 2_000_000
"""Bytes of the largest form: the positions of 100,000 records."""
MAX_FIELDS: Final = 1_000
FORM: Final = "application/x-www-form-urlencoded"

Form = ImmutableMultiDict[str, str]


async def read_form(request: Request) -> Form:
    """Read a form as a browser sends it, `application/x-www-form-urlencoded`."""
    body = await _body(request)
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and given != FORM:  # read as a form it would have no fields: "pause everything"
        raise HTTPException(415, f"A form has to be sent as {FORM}.")
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise HTTPException(400, "The form cannot be read.") from error
    if any("\0" in value for _, value in pairs):
        raise HTTPException(400, "The form holds the character NUL.")
    return Form(pairs)


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BYTES:
            raise HTTPException(413, "The form is too large.")
    return bytes(body)
