"""How a worker writes its logs: lines for people, or one JSON object a line."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from postroom.redaction import mask, redacted

STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def set_up_logging(style: str, level: str) -> None:
    """Write everything from a level on to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.captureWarnings(style == "json")  # else Python writes them as text


class TextFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.000Z WARNING postroom.relay: what happened`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        """Write the time in UTC, to the millisecond."""
        return moment(record)

    def format(self, record: logging.LogRecord) -> str:
        """Write one line, and a traceback below it, without passwords."""
        return mask(super().format(record))


class JsonFormatter(logging.Formatter):
    """Time, level, logger and message, what the call gave as `extra`, and a traceback.

    Passwords are masked: a library may log a URL, and a traceback shows lines of source.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Write one line."""
        extra = {name: value for name, value in vars(record).items() if name not in STANDARD}
        document: dict[str, Any] = {
            **extra,
            "time": moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            document["stack"] = self.formatStack(record.stack_info)
        for name, value in redacted(document).items():
            document[name] = mask(value) if isinstance(value, str) else value
        try:
            return json.dumps(document, default=str, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError):  # an extra with odd keys, or a NaN
            shown = {name: str(value) for name, value in document.items()}
            return json.dumps(shown, ensure_ascii=False)


def moment(record: logging.LogRecord) -> str:
    """Write when something was logged."""
    time = datetime.fromtimestamp(record.created, UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
