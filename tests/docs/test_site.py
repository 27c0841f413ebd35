"""The site builds without a warning, and works in a real browser, on a phone and in the dark."""

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import expect
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from tests.docs.pages import ROOT
from tests.support.browser import Visitor
from tests.support.serving import serving_app

pytestmark = pytest.mark.extended
PAGES = (
    *("/", "/tutorial/first-event/", "/how-to/rabbitmq/", "/operate/monitor/"),
    *("/reference/api/relay/", "/reference/commands/", "/explanation/performance/"),
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The address of the built site."""
    folder = tmp_path_factory.mktemp("site")
    build(folder)
    files = StaticFiles(directory=folder, html=True)
    async with serving_app(Starlette(routes=[Mount("/", files)])) as address:
        yield address


def build(folder: Path) -> None:
    program = Path(sys.executable).with_name("mkdocs")
    done = subprocess.run(
        [str(program), "build", "--site-dir", str(folder)],  # with --quiet, it counts no warning
        cwd=ROOT,
        env={"NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("phone", "dark"), [(False, True), (True, False)], ids=["desktop", "phone"]
)
async def test_pages_work_without_another_host(
    visitor: Visitor, site: str, phone: bool, dark: bool
) -> None:
    page = await visitor.open(phone=phone, dark=dark)
    for path in PAGES:
        await page.goto(site + path)
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        widths = await page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert widths[0] <= widths[1], path


async def test_the_search_finds_a_page(visitor: Visitor, site: str) -> None:
    page = await visitor.open()
    await page.goto(site)
    ready = page.get_by_text("Type to start searching")  # what is typed before goes unnoticed
    await expect(ready).to_be_attached()
    # `fill` would press no key: the page reads what is typed when a key is let go.
    await page.get_by_role("textbox", name="Search").press_sequentially("PgBouncer")
    await expect(page.locator(".md-search-result__item").first).to_contain_text("PgBouncer")
