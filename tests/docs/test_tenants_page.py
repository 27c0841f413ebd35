"""The commands of the page about tenants, which need a variable that the page sets."""

from pathlib import Path

import pytest

from tests.docs.pages import ROOT, snippets
from tests.support.command import SCRIPT
from tests.support.program import run_program

pytestmark = pytest.mark.extended
PAGE = ROOT / "docs/how-to/tenants.md"


@pytest.fixture
def page() -> Path:
    return PAGE


def test_a_worker_per_tenant_delivers_from_the_schema_of_its_tenant(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    (tmp_path / "shop.py").write_text("\n\n".join(snippets(PAGE)))
    made = run_program([tmp_path / "shop.py"], folder=tmp_path, environment=environment)
    assert made.code == 0, made.err
    assert "\nTENANT=tenant_a postroom worker shop:relay\n" in PAGE.read_text()
    done = run_program(
        [SCRIPT, "worker", "shop:relay", "--once"],
        folder=tmp_path,
        environment={**environment, "TENANT": "tenant_a"},
    )
    assert done.code == 0, done.err
    assert "`tenant_a.outbox`" in done.err


def test_commands_take_the_schema_of_a_tenant(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "shop.py").write_text("\n\n".join(snippets(PAGE)))
    run_program([tmp_path / "shop.py"], folder=tmp_path, environment=environment)
    assert "`postroom status --schema tenant_a`" in PAGE.read_text()
    words = ["status", "--schema", "tenant_a", "--database", environment["DATABASE_URL"], "--json"]
    done = run_program([SCRIPT, *words], folder=tmp_path, environment={})
    assert "`tenant_a.outbox`" in done.out, done.out + done.err
