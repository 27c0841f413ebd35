"""Errors as spans and metrics show them: by their type, and in a text without secrets."""

from collections.abc import Collection

from opentelemetry.trace import Span, StatusCode

from postroom.errors import error_text, traceable
from postroom.publishers.base import Delivered, Outage, Postponed, Refused
from postroom.relay.observer import Answer


def error_type(answer: Answer) -> str | None:
    """Return the `error.type` of an answer; None for a record that is delivered."""
    match answer:
        case Delivered():
            return None
        case Refused():
            return "refused"
        case Postponed():
            return "postponed"
        case Outage():
            return "outage"


def exception_type(error: BaseException) -> str:
    """Return the name of an exception's class, as it is imported."""
    kind = type(error)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"


def add_error(span: Span, error: BaseException, secrets: Collection[str]) -> None:
    """Have a span show what was raised in it, without passwords and `secrets`."""
    kind = exception_type(error)
    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR, f"{kind}: {error_text(error, secrets)}")
    span.record_exception(traceable(error, secrets))
