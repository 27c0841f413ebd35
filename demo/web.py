"""The page at `/`, its buttons, and the state as JSON."""

from pathlib import Path
from urllib.parse import urlsplit

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import RedirectResponse
from fastapi.templating import Jinja2Templates

from demo.controls import ACTIONS
from demo.parts import Parts
from demo.state import State, state_of

FILES = Path(__file__).with_name("page")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        " connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def page_router(demo: Parts) -> APIRouter:
    """Make the routes of the page; the interface of the application does not list them."""
    router = APIRouter(include_in_schema=False)
    templates = Jinja2Templates(FILES)

    @router.get("/")
    async def page(request: Request) -> Response:
        shown = {"state": state_of(demo)}
        return templates.TemplateResponse(request, "page.html", shown, headers=HEADERS)

    @router.get("/demo/state")
    async def state(response: Response) -> State:
        response.headers.update(HEADERS)
        return state_of(demo)

    @router.post("/demo/{action}")
    async def press(request: Request, action: str) -> Response:
        check_origin(request)
        if action not in ACTIONS:
            raise HTTPException(404, "there is no such button")
        await ACTIONS[action](demo)
        await demo.watcher.look()
        return RedirectResponse("/", 303)

    return router


def check_origin(request: Request) -> None:
    """Refuse what a page of another web site has the browser send."""
    site = request.headers.get("Sec-Fetch-Site", "same-origin")
    origin = request.headers.get("Origin")
    is_foreign = origin is not None and urlsplit(origin).netloc != request.url.netloc
    is_loopback = request.url.hostname in ("127.0.0.1", "localhost")  # else a name was rebound
    if site != "same-origin" or is_foreign or not is_loopback:
        raise HTTPException(403, "this was sent by another web site")
