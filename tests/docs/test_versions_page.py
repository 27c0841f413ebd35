"""The page of versions has those of pyproject.toml, of the doctor and of CI."""

import re
import tomllib

import yaml

from postroom.doctor import server, sqlite
from scripts.versions import PYTHONS
from tests.docs.markdown import code, table_under
from tests.docs.pages import ROOT

PAGE = ROOT / "docs/reference/versions.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REQUIREMENT = re.compile(r"([\w-]+)(?:\[[\w,]+\])?(.*)")


def test_the_libraries_are_those_of_the_project() -> None:
    rows = table_under(PAGE, "Languages and libraries").rows
    documented = {(row[0], code(row[1])[0], row[2].strip("`")) for row in rows[1:]}
    extras = {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
    extras.pop("all")
    expected = set()
    for extra, requirements in extras.items():
        for each in requirements:
            found = REQUIREMENT.fullmatch(each)
            assert found is not None, each
            expected.add((found[1], found[2], extra))
    assert documented == expected


def test_the_pythons_are_those_that_are_tested() -> None:
    [python, *_] = table_under(PAGE, "Languages and libraries").rows
    assert python[1] == ", ".join(PYTHONS)
    classifiers = [f"Programming Language :: Python :: {each}" for each in PYTHONS]
    assert set(classifiers) <= set(PROJECT["classifiers"])
    assert f"on Python {PYTHONS[0]} with the lowest version of each library" in PAGE.read_text()


def test_the_servers_are_those_of_the_doctor_and_of_ci() -> None:
    rows = {row[0]: row[1:] for row in table_under(PAGE, "Servers").rows}
    assert rows["PostgreSQL"][0] == f"{server.OLDEST_VERSION} or newer"
    assert rows["SQLite"][0] == f"{'.'.join(map(str, sqlite.OLDEST_VERSION))} or newer"
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
    services = workflow["jobs"]["test"]["services"]
    assert services["postgres"]["image"] == f"postgres:{rows['PostgreSQL'][1]}"
    assert services["rabbitmq"]["image"].startswith(f"rabbitmq:{rows['RabbitMQ'][1]}-")
