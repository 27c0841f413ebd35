"""A headless Chromium for each pytest worker, and pages in which nothing may go wrong unnoticed.

A pytest plugin. A test that uses `page`, `visitor` or `browser` is async, and runs in the event
loop of the session, in which the browser lives. Async fixtures that it uses have to run there too:
`@pytest_asyncio.fixture(loop_scope="session")`.
"""

from asyncio import timeout
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from axe_playwright_python.base import AXE_SCRIPT  # type: ignore[import-untyped]
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    Response,
    ViewportSize,
    async_playwright,
    expect,
)

from scripts.servers import CHROMIUM
from tests.support.services import missing
from tests.support.waiting import PATIENCE

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    # No request leaves this machine.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)
DESKTOP = ViewportSize(width=1280, height=800)
PHONE = ViewportSize(width=390, height=844)
RUN_AXE = """rules => {
    const runOnly = rules.length ? rules : undefined;
    return axe.run({resultTypes: ["violations"], runOnly}).then(result => result.violations);
}"""


class Visitor:
    """Opens pages, and notes what goes wrong in them.

    Problems are: errors and warnings in the console, exceptions of scripts, requests that fail,
    answers of 400 and more, requests to another host than the page's first.
    """

    def __init__(self, browser: Browser) -> None:
        self.problems: list[str] = []
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self._expected: list[str] = []

    async def open(
        self, *, javascript: bool = True, dark: bool = False, phone: bool = False
    ) -> Page:
        """Open an empty page, with cookies and storage of its own."""
        context = await self._browser.new_context(
            java_script_enabled=javascript,
            color_scheme="dark" if dark else "light",
            viewport=PHONE if phone else DESKTOP,
            is_mobile=phone,
            has_touch=phone,
            locale="en-GB",
            timezone_id="UTC",
        )
        context.set_default_timeout(PATIENCE * 1000)
        self._contexts.append(context)
        Watch(self.problems, context)
        return await context.new_page()

    def expects(self, text: str) -> None:
        """Have the test fail unless there is a problem with this text; allow those that have it."""
        self._expected.append(text)

    async def close(self) -> None:
        """Close the pages."""
        for context in self._contexts:
            await context.close()

    def check(self) -> None:
        """Fail if there was a problem that is not expected, or one that is expected was not."""
        surprises = [
            each for each in self.problems if not any(text in each for text in self._expected)
        ]
        assert not surprises, "\n".join(surprises)
        for text in self._expected:
            assert any(text in each for each in self.problems), f"there was no problem: {text}"


class Watch:
    """Notes the problems of one context: all its pages and popups."""

    def __init__(self, problems: list[str], context: BrowserContext) -> None:
        self._problems = problems
        self._host = ""
        context.on("console", self._on_console)
        context.on("weberror", lambda error: problems.append(f"exception: {error.error}"))
        context.on("request", self._on_request)
        context.on("requestfailed", self._on_failure)
        context.on("response", self._on_response)

    def _on_console(self, message: ConsoleMessage) -> None:
        # What could not be loaded is noted as an answer or a failure already.
        reported = message.text.startswith("Failed to load resource")
        if message.type in ("error", "warning") and not reported:
            self._problems.append(f"console {message.type}: {message.text}")

    def _on_request(self, request: Request) -> None:
        url = urlsplit(request.url)
        if url.scheme in ("data", "blob"):
            return
        self._host = self._host or url.netloc
        if url.netloc != self._host:
            self._problems.append(f"another host: {request.method} {request.url}")

    def _on_failure(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the page was left meanwhile
            self._problems.append(f"{request.failure}: {request.method} {request.url}")

    def _on_response(self, response: Response) -> None:
        if response.status >= 400:
            request = response.request
            self._problems.append(f"{response.status}: {request.method} {request.url}")


@asynccontextmanager
async def visiting(browser: Browser) -> AsyncIterator[Visitor]:
    """Give a visitor; fail at the end if there was a problem."""
    visitor = Visitor(browser)
    try:
        yield visitor
    finally:
        await visitor.close()
    visitor.check()


async def assert_accessible(page: Page, *rules: str) -> None:
    """Fail if axe finds a serious or critical violation on the page as it is now.

    Only of these rules, if any are named: all take about a second. The page needs JavaScript; its
    Content-Security-Policy does not matter.
    """
    await page.evaluate(AXE_SCRIPT)
    async with timeout(PATIENCE):
        violations: list[dict[str, Any]] = await page.evaluate(RUN_AXE, list(rules))
    lines = [
        f"{each['id']} ({each['impact']}) at {node['target']}: {each['help']}"
        for each in violations
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]
    assert not lines, "\n".join(lines)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Chromium, started once in each pytest worker."""
    expect.set_options(timeout=PATIENCE * 1000)
    program = CHROMIUM.find()
    if program is None:
        raise missing("Chromium (Debian's package chromium-headless-shell) is not installed")
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield started
        await started.close()


@pytest_asyncio.fixture(loop_scope="session")
async def visitor(browser: Browser) -> AsyncIterator[Visitor]:
    """For pages with options, and for what a test expects to go wrong."""
    async with visiting(browser) as visitor:
        yield visitor


@pytest_asyncio.fixture(loop_scope="session")
async def page(visitor: Visitor) -> Page:
    """An empty page of desktop size. The test fails if anything goes wrong in it."""
    return await visitor.open()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have the tests with a browser run in its event loop."""
    for item in items:
        if isinstance(item, pytest.Function) and "browser" in item.fixturenames:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
