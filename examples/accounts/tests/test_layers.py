"""Imports point inwards: to the domain, and from one context to another by events only."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

APP = "accounts"
ROOT = Path(__file__).parents[1] / APP
CONTEXTS = ("account", "core")


def imports(*folders: str) -> Iterator[tuple[str, str]]:
    """Give (file, what it imports) for every module below some folders, the stdlib left out."""
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    assert files
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            for name in imported(node):
                if name.split(".")[0] not in sys.stdlib_module_names:
                    yield str(file.relative_to(ROOT)), name


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def strangers(folder: str, *allowed: str) -> list[tuple[str, str]]:
    """Give the imports of a folder that begin with nothing that is allowed."""
    return [found for found in imports(folder) if not found[1].startswith(allowed)]


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_domain_knows_itself_and_what_an_event_is(context: str) -> None:
    own = f"{APP}.{context}.domain."
    assert (
        strangers(f"{context}/domain", own, "postroom.AggregateRoot", "postroom.DomainEvent") == []
    )


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_application_layer_knows_the_domain_and_its_own_ports(context: str) -> None:
    own = [f"{APP}.{layer}." for layer in (f"{context}.domain", f"{context}.application")]
    shared = f"{APP}.shared.application."
    assert strangers(f"{context}/application", *own, shared, "postroom.EventDispatcher") == []


def test_the_contexts_share_nothing_but_the_events_of_accounts() -> None:
    of_core = [found for found in imports("account") if found[1].startswith(f"{APP}.core")]
    of_account = {name for _, name in imports("core") if name.startswith(f"{APP}.account")}
    assert of_core == []
    assert of_account == {f"{APP}.account.domain.events.AccountCreated"}


def test_the_shared_kernel_knows_no_context() -> None:
    contexts = tuple(f"{APP}.{context}" for context in CONTEXTS)
    assert [found for found in imports("shared") if found[1].startswith(contexts)] == []


def test_only_the_public_names_of_postroom_are_used() -> None:
    names = {name for _, name in imports(".") if name.startswith("postroom.")}
    private = {
        name
        for name in names
        if name.count(".") > 1
        and not name.startswith(("postroom.integrations.", "postroom.testing."))
    }
    assert private == set()
