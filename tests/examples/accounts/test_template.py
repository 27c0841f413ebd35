"""The files around the application agree with it: README, compose file, tests."""

import re
from pathlib import Path

import pytest
import yaml

from accounts.settings import Settings
from tests.support.command import ROOT

pytestmark = pytest.mark.extended

PROJECT = ROOT / "examples/accounts"
COMPOSE = yaml.safe_load((PROJECT / "compose.yaml").read_text())
READ_BY_OTHERS = {"OTEL_EXPORTER_OTLP_ENDPOINT"}


def defaults() -> dict[str, str]:
    """Return the default of each environment variable, as it is written there."""
    fields = Settings.model_fields.items()
    return {name.upper(): str(field.default).removesuffix(".0") for name, field in fields}


def test_the_page_lists_every_setting_and_its_default() -> None:
    page = (PROJECT / "README.md").read_text()
    listed = dict(re.findall(r"^\| `([A-Z_]+)` \| `([^`]+)` \|", page, flags=re.MULTILINE))
    assert listed == {name: value.replace("False", "false") for name, value in defaults().items()}


def test_the_compose_file_sets_variables_that_exist() -> None:
    given = COMPOSE["services"]["app"]["environment"]
    assert given.keys() - defaults().keys() == READ_BY_OTHERS
    assert Settings(database_url=given["DATABASE_URL"]).database_url == given["DATABASE_URL"]


def test_the_tests_use_the_database_of_the_compose_file() -> None:
    url = COMPOSE["services"]["app"]["environment"]["DATABASE_URL"]
    assert url.replace("@postgres:", "@127.0.0.1:") in (PROJECT / "tests/conftest.py").read_text()
    assert COMPOSE["services"]["postgres"]["ports"] == ["127.0.0.1:5432:5432"]


def test_every_file_that_the_image_needs_is_sent_to_the_builder() -> None:
    sent = re.findall(r"^!(\S+)$", (PROJECT / ".dockerignore").read_text(), flags=re.MULTILINE)
    copied = re.findall(r"^COPY (\w\S*)", (PROJECT / "Dockerfile").read_text(), flags=re.MULTILINE)
    assert set(copied) < set(sent)
    assert [name for name in sent if not Path(PROJECT / name).exists()] == ["wheels"]
