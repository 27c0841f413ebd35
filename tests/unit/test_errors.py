"""The errors: one tree, and texts that help."""

import pickle
import traceback

import pytest
from sqlalchemy.exc import IntegrityError

from postroom import (
    CaptureError,
    CaptureWarning,
    PayloadError,
    PostroomError,
    SchemaError,
    UnknownEventTypeError,
    errors,
)
from postroom.errors import MAX_TEXT, error_text, traceable

DEFINED = {
    name: thing
    for name, thing in vars(errors).items()
    if isinstance(thing, type) and issubclass(thing, Exception)
}


def test_one_except_clause_catches_all_of_them() -> None:
    others = {name for name, error in DEFINED.items() if not issubclass(error, PostroomError)}
    assert others == {"CaptureWarning"}
    assert issubclass(CaptureWarning, UserWarning)


@pytest.mark.parametrize("error", [CaptureError, PayloadError, UnknownEventTypeError])
def test_what_is_wrong_with_a_value_is_a_value_error(error: type[Exception]) -> None:
    assert issubclass(error, ValueError)


def test_the_docstring_draws_the_whole_tree() -> None:
    assert [name for name in DEFINED if name not in (errors.__doc__ or "")] == []


@pytest.mark.requirement("A8")
def test_an_unknown_event_type_says_what_is_known() -> None:
    error = UnknownEventTypeError("Lost", ["Shipped", "Paid"])
    assert (error.event_type, error.known) == ("Lost", ("Paid", "Shipped"))
    assert "'Lost'" in str(error)
    assert "Paid, Shipped" in str(error)
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


def formatted(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def test_a_row_of_the_database_is_not_in_a_log() -> None:
    wrapped = PostroomError("cannot settle")
    wrapped.__cause__ = database_error()
    during = PostroomError("cannot settle")
    during.__context__ = wrapped
    group = ExceptionGroup("several", [during, ValueError("other")])
    for error in (database_error(), wrapped, during, group):
        text = formatted(traceable(error))
        assert 'IntegrityError: violates check constraint "boom"' in text
        assert "secret" not in text
    assert error_text(database_error()) == 'violates check constraint "boom"'


def test_all_other_errors_are_logged_as_they_are() -> None:
    error = ValueError("what nobody foresaw")
    error.__cause__ = BaseExceptionGroup("several", [KeyError("a"), KeyboardInterrupt()])
    assert traceable(error, {"4111"}) is error


CARD = "4111"
URL = "postgresql://me:hunter2@db/shop"


class DeclinedError(Exception):
    """As a user's own handler raises it."""


def declined() -> BaseException:
    """Return an error with a chain, each with a secret in its text."""
    try:
        try:
            raise KeyError(f"card {CARD} at {URL}")
        except KeyError as error:
            error.add_note(f"the card was {CARD}")
            raise DeclinedError(f"card {CARD}\nwas declined") from error
    except DeclinedError as error:
        return error


@pytest.mark.requirement("E10")
def test_a_traceback_shows_everything_but_secrets() -> None:
    copy = traceable(declined(), {CARD})
    text = formatted(copy)
    assert CARD not in text
    assert "hunter2" not in text
    for words in (
        "DeclinedError: card [redacted]\nwas declined",
        "KeyError: 'card [redacted] at postgresql://me:***@db/shop'",
        "the card was [redacted]",
        "The above exception was the direct cause",
        "in declined",
    ):
        assert words in text, words
    assert type(copy).__name__ == "DeclinedError"


def test_a_chain_that_comes_back_to_itself_ends() -> None:
    first, second = ValueError("4111"), ValueError("4111")
    first.__cause__, second.__cause__ = second, first
    assert "4111" not in formatted(traceable(first, {"4111"}))


def test_a_chain_of_any_length_can_be_copied() -> None:
    error = ValueError("4111")
    for _ in range(2000):
        following = ValueError("4111")
        following.__context__ = error
        error = following
    assert "4111" not in formatted(traceable(error, {"4111"}))


class SilentError(Exception):
    def __str__(self) -> str:
        raise TypeError


def test_an_error_that_cannot_be_written_is_named() -> None:
    assert error_text(SilentError()) == "SilentError"
    assert "SilentError" in formatted(traceable(SilentError()))


def test_a_text_is_masked_before_it_is_shortened() -> None:
    secret = "x" * (MAX_TEXT + 10)
    assert error_text(ValueError(f"got {secret}"), {secret}) == "got [redacted]"
    assert error_text(ValueError("one\ntwo"), {"one\ntwo"}) == "[redacted]"
    assert error_text(ValueError("amqp://me:hunter2@mq")) == "amqp://me:***@mq"
