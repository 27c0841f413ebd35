"""A page for browsers, and the files that it loads."""

import re

import httpx

ADDRESS = re.compile(r"""(?:href=|src=|url: )["'](?!data:)([^"']+)""")


async def files_of_page(client: httpx.AsyncClient, path: str) -> set[str]:
    """Load a page and its files from the application alone; give the addresses of the files."""
    page = await client.get(path, headers={"Accept": "text/html"})
    assert page.status_code == 200
    assert "//" not in page.text, "an address of another host"
    files = set(ADDRESS.findall(page.text))
    for file in files:
        answer = await client.get(page.url.join(file))
        assert (answer.status_code, bool(answer.content)) == (200, True), file
    return files
