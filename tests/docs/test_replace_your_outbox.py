"""The code that replaces a hand-written outbox loses nothing, doubles nothing, keeps the order."""

from pathlib import Path

import pytest

from tests.docs.pages import ROOT, snippets
from tests.support.program import run_program

pytestmark = pytest.mark.extended
PAGE = ROOT / "docs/how-to/replace-your-outbox.md"
PROGRAM = ROOT / "tests/docs/old_outboxes.py"


def test_rows_of_old_outboxes_are_moved_once_and_in_order(
    tmp_path: Path, database_url: str
) -> None:
    (tmp_path / "page.py").write_text("\n\n".join(snippets(PAGE)))
    done = run_program(
        ["-W", "error", PROGRAM], folder=tmp_path, environment={"DATABASE_URL": database_url}
    )
    assert done.code == 0, done.out + done.err
