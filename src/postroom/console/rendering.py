"""Makes pages from templates. Every value is escaped, and shown without invisible characters."""

from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse

from postroom.console.charts import bars
from postroom.console.documents import document, printable
from postroom.console.state import state_of
from postroom.inspection import counted, duration, key_text
from postroom.record import Key
from postroom.relay.heartbeat import postroom_version

MAX_PATH: Final = 8000
"""Characters of the longest address that browsers and servers agree on."""
NAVIGATION: Final = {
    "/": "Overview",
    "/records": "Records",
    "/failures": "Failures",
    "/keys": "Blocked keys",
    "/workers": "Workers",
    "/events": "Events",
    "/doctor": "Doctor",
    "/audit": "Audit",
}


def page(request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """Make a page."""
    state = state_of(request)
    last = state.samples.last
    context = {
        "request_path": path_of(request),
        "url": lambda path, **query: url(request, path, **query),
        "navigation": NAVIGATION,
        "visitor": request.state.postroom_visitor,
        "can_change": request.state.postroom_visitor is not None
        and request.state.postroom_visitor.can_change,
        "state": state,
        "overview_now": None if last is None else last.overview,
        "job": state.jobs.find(request.query_params.get("job", "")),
        "now": datetime.now(UTC),
        "refresh": None,
        **context,
    }
    return HTMLResponse(environment().get_template(template).render(context), status_code=status)


def redirect(request: Request, path: str, **query: str | int | None) -> RedirectResponse:
    """Send the browser to another page of the console, by GET."""
    return RedirectResponse(url(request, path, **query), status_code=303)


def url(request: Request, path: str, **query: str | int | None) -> str:
    """Write the address of a page, wherever the console is mounted."""
    given = {name: value for name, value in query.items() if value is not None}
    joint = "&" if "?" in path else "?"
    return f"{request.scope.get('root_path', '')}{path}{joint + urlencode(given) if given else ''}"


def path_of(request: Request) -> str:
    """Return the path of a request within the console."""
    path: str = request.scope["path"]  # not that of `request.url`, which has what Host says in it
    return path.removeprefix(request.scope.get("root_path", "")) or "/"


def inner_path(value: str | None, default: str = "/") -> str:
    """Return a path within the console that a form or an address names; never another site."""
    is_inner = value is not None and value.startswith("/") and not value.startswith(("//", "/\\"))
    is_usable = value is not None and value.isprintable() and len(value) <= MAX_PATH
    return value if value and is_inner and is_usable else default


def key_path(key: Key) -> str:
    """Write the path of a key's page."""
    return f"/key?{urlencode({'type': key.aggregate_type, 'id': key.aggregate_id})}"


@cache
def environment() -> Environment:
    """Return the environment of the templates."""
    made = Environment(
        loader=PackageLoader("postroom.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.filters |= {
        "at": at,
        "bars": bars,
        "counted": counted,
        "document": document,
        "duration": duration,
        "exact": escape,
        "key": key_text,
        "key_path": key_path,
        "number": "{:,.0f}".format,
        "short_worker": short_worker,
    }
    made.globals |= {"version": postroom_version(), "static_version": static_version()}
    return made


def at(moment: datetime | None) -> str:
    """Write a moment in UTC, to the second."""
    return "-" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def short_worker(name: str) -> str:
    """Write a worker's host and process, without the rest of its name."""
    return ":".join(name.split(":")[:2])


@cache
def static_version() -> str:
    """Return what changes when a static file changes, so that browsers fetch it anew."""
    folder = files("postroom.console") / "static"
    content = b"".join(each.read_bytes() for each in sorted(folder.iterdir(), key=str))
    return sha256(content).hexdigest()[:12]


def _shown(value: Any) -> Any:
    """Make what a template writes printable, also a value that is written by its `__str__`."""
    return value if isinstance(value, Markup | int | float) else printable(str(value))
