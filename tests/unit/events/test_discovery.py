"""Handlers are found in every module below a package."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from postroom import auto_discover_handlers, get_handlers_for

pytestmark = pytest.mark.requirement("B4")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty package on sys.path, under a name that nothing has imported yet."""
    monkeypatch.syspath_prepend(str(tmp_path))
    package = tmp_path / f"handlers_{uuid4().hex}"
    write(package / "__init__.py")
    yield package
    for name in [name for name in sys.modules if name.startswith(package.name)]:
        del sys.modules[name]


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    importlib.invalidate_caches()


def test_every_module_below_a_package_is_found_as_often_as_it_is_asked_for(package: Path) -> None:
    for path in ("customers.py", "audit/__init__.py", "audit/ledger.py"):
        write(package / path)
    names = [f"{package.name}.{each}" for each in ("audit", "audit.ledger", "customers")]
    assert auto_discover_handlers(package.name) == names
    assert auto_discover_handlers(sys.modules[package.name]) == names


def test_a_new_handler_needs_a_file_and_nothing_else(package: Path) -> None:
    event_type = f"event.{package.name}"
    assert auto_discover_handlers(package.name) == []
    write(
        package / "newcomer.py",
        "from postroom import handles\n"
        f"@handles({event_type!r})\n"
        "class Newcomer:\n"
        "    async def handle(self, event): ...\n",
    )
    assert auto_discover_handlers(package.name) == [f"{package.name}.newcomer"]
    [handler] = get_handlers_for(event_type)
    assert (handler.__module__, handler.__name__) == (f"{package.name}.newcomer", "Newcomer")


@pytest.mark.parametrize("broken", ["broken.py", "deeper/__init__.py"])
def test_a_module_that_cannot_be_imported_is_not_passed_over(package: Path, broken: str) -> None:
    write(package / broken, "import no_such_module\n")
    with pytest.raises(ImportError, match="no_such_module"):
        auto_discover_handlers(package.name)


def test_a_folder_without_an_init_file_is_a_package_too(package: Path) -> None:
    write(package / "billing" / "invoices.py")
    assert f"{package.name}.billing.invoices" in auto_discover_handlers(package.name)


def test_a_module_is_discovered_as_a_package_of_one() -> None:
    assert auto_discover_handlers("json.decoder") == ["json.decoder"]
