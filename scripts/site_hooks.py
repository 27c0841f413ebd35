"""Hooks of the site (mkdocs.yml): pages from the root, and links to files outside docs/."""

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(\]\(|(?:src|srcset|href)=\")([^)\"\s#]+)")


FROM_ROOT = {"index.md": "README.md", "changelog.md": "CHANGELOG.md"}
"""Pages that the site takes from the root of the repository."""


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Rewrite a page's links; a test checks on disk where they lead."""
    uri, repository = page.file.src_uri, str(config.repo_url)
    folder = "." if uri in FROM_ROOT else str(PurePosixPath("docs", uri).parent)
    text = (ROOT / FROM_ROOT[uri]).read_text() if uri in FROM_ROOT else markdown
    return LINK.sub(lambda found: found[1] + _on_site(found[2], folder, repository), text)


def _on_site(link: str, folder: str, repository: str) -> str:
    """The address that a link in a file of `folder` has on the site.

    README's links are absolute, for PyPI's page: those to docs/ become relative. Relative links to
    files outside docs/ become absolute.
    """
    raw = repository.replace("github.com", "raw.githubusercontent.com")
    for start in (f"{repository}/blob/main/docs/", f"{raw}/main/docs/"):
        if link.startswith(start):
            return link.removeprefix(start)
    if "://" in link or link.startswith("mailto:"):
        return link
    path = normpath(f"{folder}/{link}")
    if path.startswith("docs/"):
        return path.removeprefix("docs/") if folder == "." else link
    kind = "tree" if (ROOT / path).is_dir() else "blob"
    return f"{repository}/{kind}/main/{path}"
