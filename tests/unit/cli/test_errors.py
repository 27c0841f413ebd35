"""What a command says when it cannot go on: one line, with no secret in it."""

import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import OperationalError

from postroom.cli.database import bad_database, bad_schema
from postroom.cli.errors import CommandError, Exit, missing_extra
from postroom.database.naming import database_name
from postroom.errors import SchemaError

SECRET = "hunter2"


@pytest.mark.parametrize("text", ["a\nb", "a\r\n  b", " a \t b\n"])
def test_an_error_is_one_line(text: str) -> None:
    assert str(CommandError(text)) == "a b"


def test_an_error_has_the_exit_code_for_usage_unless_it_says_otherwise() -> None:
    assert CommandError("x").code == Exit.USAGE
    assert CommandError("x", Exit.BROKER).code == 5


def test_the_exit_codes_are_those_that_are_documented() -> None:
    codes = {each.name: each.value for each in Exit}
    documented = {"OK": 0, "PROBLEM": 1, "USAGE": 2, "DATABASE": 3, "SCHEMA": 4, "BROKER": 5}
    assert codes == documented


@pytest.mark.parametrize(
    ("module", "extra"),
    [("asyncpg", "postgres"), ("aiosqlite", "sqlite"), ("pamqp.commands", "rabbitmq")],
)
def test_a_missing_module_is_told_with_the_extra_that_has_it(module: str, extra: str) -> None:
    shown = missing_extra(ModuleNotFoundError("no module", name=module))
    assert str(shown) == f"{module} is not installed. Run: pip install 'postroom[{extra}]'"


@pytest.mark.parametrize("module", ["shop", None, "asyncpg_extras"])
def test_a_missing_module_of_somebody_else_is_not_ours_to_explain(module: str | None) -> None:
    assert missing_extra(ModuleNotFoundError("no module", name=module)) is None


def test_a_drift_is_told_with_how_many_more_there_are() -> None:
    assert str(bad_schema(SchemaError(["no table `outbox`."]))) == "no table `outbox`."
    shown = bad_schema(SchemaError(["no table `outbox`.", "no index.", "no column."]))
    assert str(shown) == "no table `outbox`. (2 more like it.)"
    assert shown.code == Exit.SCHEMA


def test_a_database_is_told_without_its_password_and_without_the_statement() -> None:
    url = make_url(f"postgresql://ann:{SECRET}@db:5432/shop")
    error = OperationalError("SELECT 1", {"p": SECRET}, Exception("server closed\nthe connection"))
    shown = bad_database(error, url)
    start = "cannot use database `shop` at db:5432: server closed. Check the URL, the user"
    assert str(shown).startswith(start)
    assert "SELECT" not in str(shown)
    assert SECRET not in str(shown)
    assert shown.code == Exit.DATABASE


def test_an_error_that_passes_has_the_remedy_to_run_the_command_again() -> None:
    class QueryCanceledError(Exception):
        sqlstate = "57014"

    shown = bad_database(QueryCanceledError("canceling statement"), make_url("postgresql:///shop"))
    assert str(shown).endswith(": a statement took too long. Run the command again.")


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql://ann:hunter2@db:5432/shop", "database `shop` at db:5432"),
        ("postgresql://ann:hunter2@db/shop", "database `shop` at db"),
        ("postgresql://ann:hunter2@db", "database `ann` at db"),
        ("postgresql://ann:s/hunter2@hunter2@db/shop", "database `shop` at db"),
        ("sqlite:///var/shop.db", "database `var/shop.db`"),
        ("sqlite://", "the database in memory"),
    ],
)
def test_a_place_is_named_as_people_would(url: str, name: str) -> None:
    assert database_name(make_url(url)) == name
