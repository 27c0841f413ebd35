"""The console asked by HTTP, without a browser; and the parts of a page, as a browser sees it."""

from html.parser import HTMLParser
from typing import Any

import httpx
from starlette.types import ASGIApp

TOKEN, READER_TOKEN = "operators-token-4711", "readers-token-0815"
SAME_ORIGIN = {"sec-fetch-site": "same-origin"}
"""What a browser sends with a form of the console's own page."""


def asking(
    app: ASGIApp,
    *,
    client: str = "127.0.0.1",
    host: str = "localhost",
    bearer: str | None = None,
    **headers: str,
) -> httpx.AsyncClient:
    """Ask an application from an address, by a name of its machine."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if bearer is not None:
        given["authorization"] = f"Bearer {bearer}"
    transport = httpx.ASGITransport(app=app, client=(client, 50000))
    return httpx.AsyncClient(transport=transport, base_url=f"http://{host}", headers=given)


async def post(
    visitor: httpx.AsyncClient, path: str, headers: dict[str, str] = SAME_ORIGIN, /, **fields: Any
) -> httpx.Response:
    """Send a form, as a page of the console does."""
    form = {"content-type": "application/x-www-form-urlencoded"}
    return await visitor.post(path, headers=form | headers, data=fields or None)


async def log_in(visitor: httpx.AsyncClient, token: str, **fields: str) -> httpx.Response:
    """Log in; the visitor has the cookie from then on."""
    return await post(visitor, "/login", token=token, **fields)


class PageParts(HTMLParser):
    """The elements and the text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text += data

    def of(self, tag: str) -> list[dict[str, str]]:
        """Return the attributes of each element of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def shown(self) -> str:
        """The text, and what is in attributes."""
        return "\n".join([self.text, *(v for _, each in self.elements for v in each.values())])

    def check(self) -> None:
        """Fail if anything in it is code, or leads to another site."""
        for tag, attributes in self.elements:
            assert tag not in ("style", "iframe", "object", "embed", "base", "b-evil"), tag
            for name, value in attributes.items():
                assert not name.startswith("on"), (tag, name)
                assert name not in ("style", "srcdoc"), (tag, name)
                if name in ("href", "src", "action", "formaction"):
                    is_own = value.startswith("/") and not value.startswith(("//", "/\\"))
                    assert is_own or value == "#content", (tag, name, value)
        for script in self.of("script"):
            assert script["src"].startswith("/static/console.js?v="), script
