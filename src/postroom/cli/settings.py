"""The settings of a worker: from flags, then from the environment, then from `postroom.toml`."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal

from postroom.cli.errors import CommandError
from postroom.record import MAX_RETRIES
from postroom.relay.service import POLL_INTERVAL
from postroom.relay.settings import BATCH_SIZE, RETENTION
from postroom.tables.tables import TABLE
from postroom.wakeup.notifier import CHANNEL

Sources = Sequence[tuple[str, Mapping[str, Any]]]
"""Where settings come from, as an error names it, and what each source sets."""
FILE: Final = Path("postroom.toml")
SECTION: Final = "worker"
LogFormat = Literal["text", "json"]


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing to tell: the environment's name for it, its default, and how it is read."""

    variable: str
    default: Any
    read: Callable[[Any], Any]
    of_relay: bool = True
    """Whether the code that makes a relay decides it."""


def text(value: Any) -> str:
    """Read what is any text."""
    if not isinstance(value, str) or not value:
        raise ValueError("a text")
    return value


def any_text(value: Any) -> str | None:
    """Read what may be empty, for none."""
    if not isinstance(value, str):
        raise ValueError("a text")
    return value or None


def seconds(value: Any) -> float:
    """Read a time."""
    return _number(value, "a number of seconds, above 0", 0.001, 1e9)


def count(value: Any) -> int:
    """Read how many."""
    return _whole(value, "a whole number, 1 or more", 1, 2**31 - 1)


def days(value: Any) -> float:
    """Read a number of days; 0 keeps nothing."""
    return _number(value, "a number of days, 0 or more", 0, 100_000)


def port(value: Any) -> int:
    """Read a port."""
    return _whole(value, "a port, from 1 to 65535", 1, 65535)


def log_format(value: Any) -> str:
    """Read how logs are written."""
    return _one_of(value, "text", "json")


def log_level(value: Any) -> str:
    """Read from which level on logs are written."""
    return _one_of(str(value).upper(), "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


SETTINGS: Final[Mapping[str, Setting]] = {
    "database": Setting("DATABASE_URL", None, text),
    "broker": Setting("RABBITMQ_URL", "amqp://guest:guest@localhost:5672/", text),
    "exchange": Setting("RABBITMQ_EXCHANGE", "messaging", text),
    "table": Setting("OUTBOX_TABLE", TABLE, text),
    "schema": Setting("OUTBOX_SCHEMA", None, any_text),
    "poll_interval": Setting("OUTBOX_POLL_INTERVAL", POLL_INTERVAL.total_seconds(), seconds),
    "batch_size": Setting("OUTBOX_BATCH_SIZE", BATCH_SIZE, count),
    "max_retries": Setting("OUTBOX_MAX_RETRIES", MAX_RETRIES, count),
    "cleanup_days": Setting("OUTBOX_CLEANUP_DAYS", RETENTION / timedelta(days=1), days),
    "channel": Setting("OUTBOX_CHANNEL", CHANNEL, any_text),
    "cloud_events": Setting("OUTBOX_CLOUD_EVENTS", None, any_text),
    "health_host": Setting("POSTROOM_HEALTH_HOST", "0.0.0.0", text, of_relay=False),  # noqa: S104
    "health_port": Setting("POSTROOM_HEALTH_PORT", None, port, of_relay=False),
    "log_format": Setting("POSTROOM_LOG_FORMAT", "text", log_format, of_relay=False),
    "log_level": Setting("POSTROOM_LOG_LEVEL", "INFO", log_level, of_relay=False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """See `SETTINGS`. `relay` names one that a module holds; the rest makes one from URLs."""

    relay: str | None
    database: str | None
    broker: str
    exchange: str
    table: str
    schema: str | None
    poll_interval: float
    batch_size: int
    max_retries: int
    cleanup_days: float
    channel: str | None
    cloud_events: str | None
    health_host: str
    health_port: int | None
    log_format: str
    log_level: str

    @classmethod
    def gather(
        cls, flags: Mapping[str, Any], config: Path | None, environment: Mapping[str, str]
    ) -> "WorkerSettings":
        """Take each setting from the first source that has it. Raises CommandError."""
        given = {name: value for name, value in flags.items() if value is not None}
        from_file = read_file(config)
        named = from_file.pop("relay", None)
        if named is not None and not isinstance(named, str):
            raise CommandError(f"relay in {config or FILE} is {named!r}: it has to be a text.")
        relay = given.pop("relay", None) or (None if "database" in given else named)
        sources = (
            ("--{flag}", given),
            ("{variable}", {name: environment.get(s.variable) for name, s in SETTINGS.items()}),
            (f"{{name}} in {config or FILE}", from_file),
        )
        return cls(relay=relay, **{name: _pick(name, sources) for name in SETTINGS})

    def refuse_unused(self, flags: Mapping[str, Any]) -> None:
        """Raise CommandError for a flag that the relay of a module does not use."""
        given = (name for name, value in flags.items() if value is not None and name in SETTINGS)
        unused = [name for name in given if SETTINGS[name].of_relay]
        if self.relay is not None and unused:
            raise CommandError(
                f"--{unused[0].replace('_', '-')} is for a worker that is made from URLs."
                f" The code that makes {self.relay} decides that."
            )


def read_file(path: Path | None) -> dict[str, Any]:
    """Read the worker's section of a file; the usual one may be missing."""
    found = path or FILE
    if path is None and not found.exists():
        return {}
    try:
        document = tomllib.loads(found.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"cannot read {found}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{found} is no TOML: {error}.") from error
    section = document.pop(SECTION, {})
    if not isinstance(section, dict):
        raise CommandError(f"{found}: [{SECTION}] is a table of settings.")
    if document:
        stray = ", ".join(sorted(document))
        raise CommandError(f"{found} has {stray} beside its table [{SECTION}], which has them all.")
    known = {*SETTINGS, "relay"}
    if unknown := sorted(section.keys() - known):
        raise CommandError(
            f"{found} has a setting {unknown[0]!r} in [{SECTION}]."
            f" There are: {', '.join(sorted(known))}."
        )
    return dict(section)


def _pick(name: str, sources: Sources) -> Any:
    """Take a setting from the first that has it."""
    setting = SETTINGS[name]
    for source, values in sources:
        value = values.get(name)
        if value is None or (value == "" and setting.read is not any_text):
            continue
        try:
            return setting.read(value)
        except ValueError as error:
            flag = name.replace("_", "-")
            who = source.format(name=name, flag=flag, variable=setting.variable)
            shown = "" if name in ("database", "broker") else f" is {value!r}"
            raise CommandError(f"{who}{shown}: it has to be {error}.") from error
    return setting.default


def _number(value: Any, form: str, least: float, most: float) -> float:
    try:
        number = float(value)
    except (ValueError, TypeError, OverflowError):
        raise ValueError(form) from None
    if isinstance(value, bool) or not least <= number <= most:
        raise ValueError(form)
    return number


def _whole(value: Any, form: str, least: int, most: int) -> int:
    number = _number(value, form, least, most)
    if not number.is_integer():
        raise ValueError(form)
    return int(number)


def _one_of(value: Any, *choices: str) -> str:
    if value not in choices:
        raise ValueError(f"one of {', '.join(choices)}")
    return str(value)


assert set(SETTINGS) | {"relay"} == {each.name for each in fields(WorkerSettings)}  # noqa: S101
