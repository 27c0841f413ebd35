"""The options of the commands: each is listed once, with its variable, its default and its help.

A value comes from the option, else from the environment, else from `[tool.postroom]` in a file,
where it has the name of the field.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from postroom.cli import values
from postroom.cli.configuration import use_file

CONNECTION, BROKER = "Connection", "Broker"
DELIVERY, RETRIES, PROCESS = "Delivery", "Retries and retention", "Process"
RELAY_VARIABLE: Final = "POSTROOM_RELAY"
RELAY_HELP: Final = "A relay in your code, or a function that makes one: app.outbox:relay."


def setting(
    variable: str,
    read: Callable[[Any], Any],
    shown: str,
    text: str,
    panel: str = CONNECTION,
    *names: str,
) -> Any:
    """Describe an option that the environment and a file set, too.

    It is named after its field, as it is in a file, unless `names` say otherwise.
    """
    return typer.Option(
        *names, envvar=variable, parser=read, metavar=shown, help=text, rich_help_panel=panel
    )


RelayArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="MODULE:RELAY", envvar=RELAY_VARIABLE, parser=values.text, help=RELAY_HELP
    ),
]
RelayOption = Annotated[
    str | None,
    setting(
        RELAY_VARIABLE, values.text, "MODULE:NAME", f"{RELAY_HELP} With --database: or an Outbox."
    ),
]
Database = Annotated[
    str | None,
    setting(
        "DATABASE_URL",
        values.secret,
        "URL",
        "postgresql://user:password@host/name, or sqlite:///path/to/file.",
    ),
]
Table = Annotated[str, setting("OUTBOX_TABLE", values.text, "NAME", "Table of the records.")]
Schema = Annotated[
    str | None, setting("OUTBOX_SCHEMA", values.text_or_none, "NAME", "Schema of that table.")
]
Redact = Annotated[
    Any,
    setting(
        "OUTBOX_REDACT",
        values.redact,
        "FIELDS",
        "Payload fields that are never shown, besides passwords and tokens: email,card.*.",
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        is_eager=True,  # so that the file is read before the other options are
        callback=use_file,
        help=r"Read \[tool.postroom] of this file, not of ./pyproject.toml.",
        rich_help_panel=CONNECTION,
    ),
]
BrokerUrl = Annotated[
    str,
    setting(
        "RABBITMQ_URL",
        values.secret,
        "URL",
        "RabbitMQ, one host or several: amqp://user:password@mq1,mq2/vhost.",
        BROKER,
    ),
]
Exchange = Annotated[
    str, setting("RABBITMQ_EXCHANGE", values.text, "NAME", "Exchange to publish to.", BROKER)
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON.", rich_help_panel="Output", show_default=False)
]

DEFAULT_TABLE: Final = "outbox"
DEFAULT_BROKER: Final = "amqp://guest:guest@localhost:5672/"
DEFAULT_EXCHANGE: Final = "messaging"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Which outbox an operator's command is about."""

    relay: RelayOption = None
    database: Database = None
    table: Table = DEFAULT_TABLE
    schema: Schema = None
    redact: Redact = ()
    config: ConfigFile = None
    read_only: Annotated[bool, typer.Option(envvar="POSTROOM_READ_ONLY", hidden=True)] = False
    given: frozenset[str] = frozenset()
    """The options that were written on the command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """The settings of a worker: `relay` names one in the user's code, the others make one."""

    relay: RelayArgument = None
    database: Database = None
    table: Table = DEFAULT_TABLE
    schema: Schema = None
    redact: Redact = ()
    config: ConfigFile = None
    broker: BrokerUrl = DEFAULT_BROKER
    exchange: Exchange = DEFAULT_EXCHANGE
    cloud_events: Annotated[
        str | None,
        setting(
            "OUTBOX_CLOUD_EVENTS",
            values.text_or_none,
            "SOURCE",
            "Make messages CloudEvents too, with this source.",
            BROKER,
        ),
    ] = None
    poll_interval: Annotated[
        float,
        setting(
            "OUTBOX_POLL_INTERVAL", values.seconds, "SECONDS", "Seconds between polls.", DELIVERY
        ),
    ] = 5
    channel: Annotated[
        str | None,
        setting(
            "OUTBOX_CHANNEL",
            values.text_or_none,
            "NAME",
            "Channel to LISTEN on; '' only polls, behind PgBouncer.",
            DELIVERY,
        ),
    ] = "outbox_channel"
    batch_size: Annotated[
        int,
        setting(
            "OUTBOX_BATCH_SIZE", values.count, "NUMBER", "Records to claim at a time.", DELIVERY
        ),
    ] = 100
    lease: Annotated[
        float,
        setting(
            "OUTBOX_LEASE",
            values.seconds,
            "SECONDS",
            "Seconds until other workers take over from one that died.",
            DELIVERY,
        ),
    ] = 10
    grace: Annotated[
        float,
        setting(
            "OUTBOX_GRACE",
            values.seconds_or_zero,
            "SECONDS",
            "Seconds to finish what is in flight when told to stop.",
            DELIVERY,
        ),
    ] = 30
    retry: Annotated[
        Any,
        setting(
            "OUTBOX_RETRY",
            values.schedule,
            "SCHEDULE",
            "When to try a refused record again: tiers, backoff, polls, or seconds like 1,5,30.",
            RETRIES,
        ),
    ] = "tiers"
    max_retries: Annotated[
        int,
        setting(
            "OUTBOX_MAX_RETRIES",
            values.count,
            "NUMBER",
            "Refusals that fail a record without a limit of its own.",
            RETRIES,
        ),
    ] = 10
    on_failed: Annotated[
        Any,
        setting(
            "OUTBOX_ON_FAILED",
            values.on_failed,
            "hold|continue",
            "Whether a failed record blocks the later ones of its key.",
            RETRIES,
        ),
    ] = "hold"
    cleanup_days: Annotated[
        float | None,
        setting(
            "OUTBOX_CLEANUP_DAYS",
            values.days,
            "DAYS",
            "Days to keep delivered records, or forever.",
            RETRIES,
        ),
    ] = 7
    health_port: Annotated[
        int | None,
        setting(
            "POSTROOM_HEALTH_PORT",
            values.port,
            "PORT",
            "Answer /live, /ready and /metrics by HTTP on this port.",
            PROCESS,
        ),
    ] = None
    health_host: Annotated[
        str,
        setting("POSTROOM_HEALTH_HOST", values.text, "ADDRESS", "Address to answer on.", PROCESS),
    ] = "0.0.0.0"  # noqa: S104
    log_format: Annotated[
        str,
        setting(
            "POSTROOM_LOG_FORMAT",
            values.log_format,
            "text|json",
            "How to write logs and errors.",
            PROCESS,
        ),
    ] = "text"
    log_level: Annotated[
        str,
        setting(
            "POSTROOM_LOG_LEVEL",
            values.log_level,
            "LEVEL",
            "Write logs from this level on.",
            PROCESS,
        ),
    ] = "INFO"
    given: frozenset[str] = frozenset()
    """The options that were written on the command line."""


def named_in_code(settings: WorkerSettings | Connection) -> str | None:
    """Return the name of a relay; None if `--database` on the command line takes its place."""
    if "database" in settings.given and "relay" not in settings.given:
        return None
    return settings.relay
