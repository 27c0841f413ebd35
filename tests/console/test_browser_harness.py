"""The browser of the tests notices what goes wrong in a page."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from tests.support.browser import Visitor, assert_accessible, visiting
from tests.support.serving import serving_app

pytestmark = pytest.mark.extended

PAGE = """<!doctype html><html lang="en"><title>Outbox</title>
<meta name="viewport" content="width=device-width"><main><h1>Outbox</h1>{}</main></html>"""
BODIES = {
    "fine": "<p>Nothing to see</p>",
    "script": '<p id="p">before</p><script src="/script.js"></script>',
    "console-error": "<script src='/error.js'></script>",
    "console-warning": "<script src='/warning.js'></script>",
    "exception": "<script src='/throw.js'></script>",
    "inline-script": "<script>1</script>",
    "missing-script": "<script src='/none.js'></script>",
    "other-host": "<img alt='logo' src='http://cdn.example.com/logo.png'>",
    "no-alt": "<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>",
    "pale": "<p style='color: #eee; background: #fff'>Can you read this?</p>",
}
SCRIPTS = {
    "script": "document.getElementById('p').textContent = 'after'",
    "error": "console.error('all is lost')",
    "warning": "console.warn('all may be lost')",
    "throw": "throw new Error('no such thing')",
}
POLICY = "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src * data:"


async def _page(request: Request) -> Response:
    body = BODIES.get(request.path_params["name"])
    if body is None:
        return Response(status_code=404)
    return HTMLResponse(PAGE.format(body), headers={"Content-Security-Policy": POLICY})


async def _script(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in SCRIPTS:
        return Response(status_code=404)
    return Response(SCRIPTS[name], media_type="text/javascript")


async def _visit(browser: Browser, url: str, *expected: str) -> None:
    async with visiting(browser) as visitor:
        for text in expected:
            visitor.expects(text)
        await (await visitor.open()).goto(url)


@pytest_asyncio.fixture(loop_scope="session")
async def address() -> AsyncIterator[str]:
    app = Starlette(routes=[Route("/{name}.js", _script), Route("/{name}", _page)])
    async with serving_app(app) as address:
        yield address


async def test_a_page_without_problems_passes(page: Page, address: str) -> None:
    await page.goto(f"{address}/script")
    await expect(page.locator("#p")).to_have_text("after")
    await assert_accessible(page)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("console-error", "console error: all is lost"),
        ("console-warning", "console warning: all may be lost"),
        ("exception", "exception: no such thing"),
        ("inline-script", "Content Security Policy"),
        ("missing-script", "404: GET http://127.0.0.1:.*/none.js"),
        ("other-host", "another host: GET http://cdn.example.com/logo.png"),
        ("other-host", "net::ERR_NAME_NOT_RESOLVED: GET http://cdn.example.com/logo.png"),
    ],
)
async def test_a_problem_in_a_page_fails_the_test(
    browser: Browser, address: str, name: str, problem: str
) -> None:
    with pytest.raises(AssertionError, match=problem):
        await _visit(browser, f"{address}/{name}")


async def test_a_test_can_expect_a_problem(visitor: Visitor, page: Page, address: str) -> None:
    visitor.expects("404: GET")
    await page.goto(f"{address}/missing-script")


async def test_a_problem_that_is_expected_has_to_occur(browser: Browser, address: str) -> None:
    with pytest.raises(AssertionError, match="there was no problem: 404"):
        await _visit(browser, f"{address}/fine", "404")


@pytest.mark.parametrize(
    ("name", "violation"),
    [
        ("no-alt", r"image-alt \(critical\) at \['img'\]: Images must"),
        ("pale", r"color-contrast \(serious\) at \['p'\]"),
    ],
)
async def test_what_is_not_accessible_fails_the_test(
    page: Page, address: str, name: str, violation: str
) -> None:
    await page.goto(f"{address}/{name}")
    with pytest.raises(AssertionError, match=violation):
        await assert_accessible(page)
