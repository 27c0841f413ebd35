"""The API pages have every public name, once, and the index links to each of them."""

import inspect
import re
from importlib import import_module
from pkgutil import iter_modules

import pytest

import postroom
import postroom.errors
import postroom.integrations
import postroom.publishers
from tests.docs.pages import ROOT

API = ROOT / "docs/reference/api"
INDEX = API / "index.md"
DIRECTIVE = re.compile(r"^::: (\S+)$", re.MULTILINE)
CROSS_REFERENCE = re.compile(r"\]\[(postroom[\w.]*)\]")
MODULES = ("testing", "operations", "inspection", "console")
INTERNAL = {
    "postroom.integrations.metrics",
    *(
        f"postroom.publishers.{name}"
        for name in ("base", "handlers", "memory", "topics", "waiting")
    ),
}
"""Modules whose public names, if any, `postroom` exports."""


def below(package: str) -> list[str]:
    """Return the modules of a package that users import from."""
    found = iter_modules(import_module(package).__path__, f"{package}.")
    return [each.name for each in found if each.name not in INTERNAL]


def names_of(module: str) -> list[str]:
    return [f"{module}.{name}" for name in import_module(module).__all__]


def errors() -> list[str]:
    """Return the errors that `postroom` does not export; `postroom.errors` has them."""
    defined = inspect.getmembers(postroom.errors, inspect.isclass)
    return [
        f"postroom.errors.{name}"
        for name, each in defined
        if issubclass(each, Exception) and name not in postroom.__all__
    ]


def public_names() -> list[str]:
    modules = [f"postroom.{name}" for name in MODULES]
    modules += below("postroom.publishers") + below("postroom.integrations")
    return [name for module in ("postroom", *modules) for name in names_of(module)] + errors()


def documented_names() -> list[str]:
    return [name for page in API.glob("*.md") for name in DIRECTIVE.findall(page.read_text())]


def test_every_public_name_is_on_exactly_one_page() -> None:
    assert sorted(documented_names()) == sorted(public_names())


@pytest.mark.parametrize("package", ["postroom.publishers", "postroom.integrations"])
def test_a_module_that_users_import_from_lists_its_names(package: str) -> None:
    without = [each for each in below(package) if not hasattr(import_module(each), "__all__")]
    assert without == []


def test_the_index_links_to_every_name() -> None:
    assert sorted(CROSS_REFERENCE.findall(INDEX.read_text())) == sorted(public_names())


def test_every_public_name_says_what_it_is() -> None:
    """Constants and aliases aside: what they have at run time is their type's own."""
    public = [(name, resolve(name)) for name in public_names()]
    described = [(name, each) for name, each in public if inspect.isroutine(each) or is_class(each)]
    assert [name for name, each in described if not (each.__doc__ or "").strip()] == []


def test_the_page_of_errors_draws_the_tree_of_the_module() -> None:
    tree = (postroom.errors.__doc__ or "").partition("\n\n")[2]
    assert f"```text\n{tree}```" in (API / "errors.md").read_text()


def resolve(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    found: object = getattr(import_module(module), attribute)
    return found


def is_class(each: object) -> bool:
    return inspect.isclass(each) and each.__module__.startswith("postroom")
