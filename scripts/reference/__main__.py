"""`python -m scripts.reference` writes the generated parts of the docs; `--check` compares them."""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from scripts import journey, states
from scripts.drawing import FOLDER, THEMES
from scripts.reference import api, architecture, commands, facts, logs, metrics, schema, settings
from scripts.reference.blocks import ROOT, TO_WRITE, Block, PageError, rewritten

PAGES: Mapping[str, Callable[[], Mapping[str, Block]]] = {
    "docs/explanation/architecture.md": architecture.blocks,
    "docs/explanation/comparison.md": facts.comparison,
    "docs/reference/api/errors.md": api.error_tree,
    "docs/reference/api/index.md": api.index,
    "docs/reference/commands.md": commands.blocks,
    "docs/reference/database-errors.md": facts.database_errors,
    "docs/reference/exit-codes.md": facts.exit_codes,
    "docs/reference/log-events.md": logs.blocks,
    "docs/reference/metrics.md": metrics.blocks,
    "docs/reference/schema.md": schema.blocks,
    "docs/reference/settings.md": settings.blocks,
    "docs/reference/versions.md": facts.versions,
}
PICTURES = {"journey": journey.draw, "states": states.draw}


def files() -> Iterator[tuple[Path, str]]:
    """Return each file with the text that it has to have."""
    for name, blocks in PAGES.items():
        path = ROOT / name
        try:
            yield path, rewritten(path.read_text(), blocks())
        except PageError as error:
            raise SystemExit(f"{name} {error}") from error
    for name, draw in PICTURES.items():
        for theme, colours in THEMES.items():
            yield FOLDER / f"{name}-{theme}.svg", draw(colours)


def main(check: bool) -> int:
    """Write what is out of date, or name it; name what has to be written by hand."""
    code = 0
    for path, text in files():
        name = path.relative_to(ROOT)
        if check and text != path.read_text():
            print(f"{name} is out of date: run make docs-reference", file=sys.stderr)
            code = 1
        elif text != path.read_text():
            path.write_text(text)
            print(f"wrote {name}")
        if TO_WRITE in text:
            print(f"{name} has a cell or a name {TO_WRITE}", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv))
