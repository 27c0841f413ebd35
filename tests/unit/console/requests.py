"""Requests as a server hands them to an application, without a server."""

from typing import Any

from starlette.requests import Request


def request(
    method: str = "GET",
    path: str = "/",
    *,
    client: str | None = "198.51.100.7",
    scheme: str = "http",
    root_path: str = "",
    **headers: str,
) -> Request:
    """Make a request; the names of headers have _ for -."""
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "root_path": root_path,
        "query_string": b"",
        "scheme": scheme,
        "client": None if client is None else (client, 1),
        "headers": [
            (name.replace("_", "-").encode(), value.encode("latin-1"))
            for name, value in headers.items()
        ],
    }
    return Request(scope)
