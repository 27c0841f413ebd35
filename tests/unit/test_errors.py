"""The errors: one tree, and texts that help."""

import pickle

import pytest
from sqlalchemy.exc import IntegrityError

from postroom import (
    CaptureError,
    CaptureWarning,
    ConfigurationError,
    EventDefinitionError,
    PayloadError,
    PostroomError,
    SchemaError,
    UnknownEventTypeError,
    errors,
)
from postroom.errors import error_text, traceable

ALL = [
    CaptureError,
    ConfigurationError,
    EventDefinitionError,
    PayloadError,
    SchemaError,
    UnknownEventTypeError,
]


def test_one_except_clause_catches_all_of_them() -> None:
    assert [error for error in ALL if not issubclass(error, PostroomError)] == []


@pytest.mark.parametrize("error", [CaptureError, PayloadError, UnknownEventTypeError])
def test_what_is_wrong_with_a_value_is_a_value_error(error: type[Exception]) -> None:
    assert issubclass(error, ValueError)


def test_a_warning_is_a_user_warning() -> None:
    assert issubclass(CaptureWarning, UserWarning)


def test_the_docstring_draws_the_whole_tree() -> None:
    defined = [
        name
        for name, thing in vars(errors).items()
        if isinstance(thing, type) and issubclass(thing, Exception)
    ]
    assert [name for name in defined if name not in (errors.__doc__ or "")] == []


@pytest.mark.requirement("A8")
def test_an_unknown_event_type_says_what_is_known() -> None:
    error = UnknownEventTypeError("Lost", ["Shipped", "Paid"])
    assert (error.event_type, error.known) == ("Lost", ("Paid", "Shipped"))
    assert "'Lost'" in str(error)
    assert "Paid, Shipped" in str(error)


def test_an_unknown_event_type_says_when_nothing_is_known() -> None:
    assert "Known: none" in str(UnknownEventTypeError("Lost", []))


def test_a_schema_error_lists_every_drift_on_a_line_of_its_own() -> None:
    error = SchemaError(["no table a", "no column b"])
    assert error.drift == ("no table a", "no column b")
    assert str(error) == "no table a\nno column b"


@pytest.mark.parametrize(
    "error", [UnknownEventTypeError("Lost", ["Paid"]), SchemaError(["a", "b"])]
)
def test_errors_survive_the_way_out_of_another_process(error: PostroomError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  our own bytes
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def database_error() -> IntegrityError:
    """As PostgreSQL says it: the row in question is a part of the text."""
    row = 'violates check constraint "boom"\nDETAIL:  Failing row contains (secret).'
    return IntegrityError("INSERT …", {}, ValueError(row))


def test_a_row_of_the_database_is_not_in_a_log() -> None:
    wrapped = PostroomError("cannot settle")
    wrapped.__cause__ = database_error()
    assert traceable(database_error()) is traceable(wrapped) is None
    assert error_text(database_error()) == 'violates check constraint "boom"'


def test_all_other_errors_are_logged_with_their_traceback() -> None:
    error = ValueError("what nobody foresaw")
    assert traceable(error) is error
