"""The settings of a worker: from options, then the environment, then a file."""

from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from postroom import OutboxRelay, RetrySchedule
from postroom.cli.app import app
from postroom.cli.command import make_group
from postroom.cli.errors import CommandError, Exit
from postroom.cli.options import WorkerSettings, named_in_code
from postroom.cli.reporting import Invocation
from postroom.cli.wiring import OF_THE_PROCESS, refuse_unused, schedule_of
from postroom.record import MAX_RETRIES
from postroom.relay.relay import SERVICE_POLL_INTERVAL
from postroom.tables.tables import TABLE
from postroom.wakeup.notifier import CHANNEL
from tests.support.in_process import own_logging

SECRET = "s3cr:t%2Fp%40ss"
EXAMPLES: Mapping[str, tuple[Any, str, Any]] = {
    # what the option says, the environment, the file: three values that are not the default
    "database": ("sqlite:///flag.db", "sqlite:///environment.db", "sqlite:///file.db"),
    "broker": ("amqp://flag/", "amqp://environment/", "amqp://file/"),
    "exchange": ("flag", "environment", "file"),
    "table": ("flag", "environment", "file"),
    "schema": ("flag", "environment", "file"),
    "redact": ("email", "card.number, card.cvc", ["a", "b.*"]),
    "poll_interval": (1.5, "2.5", 3.5),
    "batch_size": (11, "12", 13),
    "lease": (15, "16", 17),
    "grace": (0, "26", 27),
    "retry": ("backoff", "1,5", [0.5, 2]),
    "max_retries": (21, "22", 23),
    "on_failed": ("continue", "continue", "continue"),
    "cleanup_days": (0.5, "forever", 2.5),
    "channel": ("flag", "environment", "file"),
    "cloud_events": ("/flag", "/environment", "/file"),
    "health_host": ("127.0.0.1", "127.0.0.2", "127.0.0.3"),
    "health_port": (8001, "8002", 8003),
    "log_format": ("json", "json", "json"),
    "log_level": ("DEBUG", "WARNING", "ERROR"),
    "relay": ("flag:relay", "environment:relay", "file:relay"),
}
READ = {
    "forever": None,
    "1,5": (1, 5),
    "email": ("email",),
    "card.number, card.cvc": ("card.number", "card.cvc"),
}
worker = typer.main.get_command(app).commands["worker"]  # type: ignore[attr-defined]
OPTIONS = {each.name: each for each in worker.params}
DEFAULTS = {each.name: each.default for each in fields(WorkerSettings)}


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and an environment without settings."""
    monkeypatch.chdir(tmp_path)
    for name in EXAMPLES:
        monkeypatch.delenv(variable_of(name), raising=False)
    return tmp_path


def variable_of(name: str) -> str:
    return str(OPTIONS[name].envvar)


def write(text: str, name: str = "pyproject.toml") -> Path:
    path = Path(name)
    path.write_text(text, encoding="utf-8")
    return path


def toml(**values: Any) -> str:
    lines = [f"{name} = {value!r}" for name, value in values.items()]
    return "\n".join(["[tool.postroom]", *lines, ""])


def words(flags: Mapping[str, Any], config: Path | None = None) -> list[str]:
    """Write options as they are typed."""
    named = {**flags, **({} if config is None else {"config": config})}
    relay = [str(named.pop("relay"))] if "relay" in named else []
    return relay + [f"--{name.replace('_', '-')}={value}" for name, value in named.items()]


def gather(
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    config: Path | None = None,
) -> WorkerSettings:
    """Gather settings as the command does."""
    given = words(flags or {}, config)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (environment or {}).items():
            patch.setenv(name, value)
        with worker.make_context("worker", given, obj=Invocation(given)) as context:
            made: WorkerSettings = make_group(WorkerSettings, context, dict(context.params))
            return made


def error_of(
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    config: Path | None = None,
) -> str:
    """Return what the command says about settings that it cannot use."""
    with own_logging():
        done = CliRunner().invoke(app, ["worker", *words(flags or {}, config)], env=environment)
    assert (done.exit_code, done.stdout) == (Exit.USAGE, "")
    [line] = done.stderr.splitlines()
    return line.removeprefix("postroom worker: ")


def as_read(value: Any) -> Any:
    """Return what becomes of a value of EXAMPLES."""
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, str) and value in READ:
        return READ[value]
    return float(value) if str(value).replace(".", "", 1).isdigit() else value


def test_there_is_an_example_of_each_setting() -> None:
    assert EXAMPLES.keys() == {name for name, each in OPTIONS.items() if each.envvar}


def test_the_defaults_are_those_of_the_library() -> None:
    settings, relay = gather(), OutboxRelay.__init__.__kwdefaults__ or {}
    assert settings.poll_interval == SERVICE_POLL_INTERVAL.total_seconds()
    assert settings.batch_size == relay["batch_size"]
    assert settings.lease == relay["lease"].total_seconds()
    assert settings.grace == relay["grace"].total_seconds()
    assert settings.on_failed == relay["on_failed"]
    assert timedelta(days=settings.cleanup_days or 0) == relay["retention"]
    assert (settings.max_retries, settings.table, settings.channel) == (MAX_RETRIES, TABLE, CHANNEL)


@pytest.mark.requirement("C13")
def test_the_defaults_are_the_seeds() -> None:
    settings = gather()
    assert settings.broker == "amqp://guest:guest@localhost:5672/"
    assert settings.exchange == "messaging"
    assert settings.poll_interval == 5
    assert settings.batch_size == 100
    assert settings.max_retries == 10
    assert settings.cleanup_days == 7
    assert settings.channel == "outbox_channel"
    assert settings.table == "outbox"
    assert (settings.relay, settings.database, settings.schema) == (None, None, None)
    assert (settings.health_port, settings.log_format, settings.log_level) == (None, "text", "INFO")


@pytest.mark.requirement("C13")
def test_the_environment_is_asked_by_the_names_of_the_seed() -> None:
    settings = gather(
        environment={
            "RABBITMQ_URL": "amqp://mq/",
            "RABBITMQ_EXCHANGE": "letters",
            "OUTBOX_POLL_INTERVAL": "0.5",
            "OUTBOX_BATCH_SIZE": "7",
            "OUTBOX_MAX_RETRIES": "3",
            "OUTBOX_CLEANUP_DAYS": "30",
        }
    )
    assert (settings.broker, settings.exchange) == ("amqp://mq/", "letters")
    assert (settings.poll_interval, settings.batch_size) == (0.5, 7)
    assert (settings.max_retries, settings.cleanup_days) == (3, 30)


@pytest.mark.requirement("C13")
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_option_wins_over_the_environment_over_the_file_over_the_default(name: str) -> None:
    option, variable, in_file = EXAMPLES[name]
    default = DEFAULTS[name]
    assert getattr(gather(), name) == default
    write(toml(**{name: in_file}))
    assert getattr(gather(), name) == as_read(in_file) != default
    environment = {variable_of(name): variable}
    assert getattr(gather(environment=environment), name) == as_read(variable)
    assert getattr(gather({name: option}, environment), name) == as_read(option)


@pytest.mark.parametrize("name", ["database", "batch_size", "log_format", "health_port"])
def test_what_is_empty_in_the_environment_is_not_told(name: str) -> None:
    write(toml(**{name: EXAMPLES[name][2]}))
    settings = gather(environment={variable_of(name): ""})
    assert getattr(settings, name) == EXAMPLES[name][2]


@pytest.mark.parametrize("source", ["flag", "environment", "file"])
def test_an_empty_channel_means_only_to_poll(source: str) -> None:
    if source == "file":
        write(toml(channel=""))
    flags = {"channel": ""} if source == "flag" else {}
    environment = {"OUTBOX_CHANNEL": ""} if source == "environment" else {}
    assert gather(flags, environment).channel is None


BAD = {
    "poll_interval": ["0", "-1", "soon", "nan", "inf"],
    "batch_size": ["0", "1.5", "many", "1e12"],
    "max_retries": ["0", "-3"],
    "lease": ["0"],
    "grace": ["-1"],
    "retry": ["often", "1,,2", "-1", ","],
    "on_failed": ["stop"],
    "cleanup_days": ["-1", "1e9"],
    "health_port": ["0", "65536", "http"],
    "log_format": ["xml"],
    "log_level": ["LOUD"],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD.items() for value in values]
)
def test_a_bad_value_is_named_with_who_said_it(name: str, value: str) -> None:
    variable = variable_of(name)
    text = error_of(environment={variable: value})
    assert text.startswith(f"{variable} is {value!r}: it has to be ")
    text = error_of({name: value})
    assert text.startswith(f"--{name.replace('_', '-')} is {value!r}: it has to be ")
    write(toml(**{name: value}))
    text = error_of()
    assert text.startswith(f"{name} in pyproject.toml is {value!r}: it has to be ")


@pytest.mark.parametrize(
    ("line", "setting"),
    [
        ("batch_size = true", "batch_size"),
        ("poll_interval = true", "poll_interval"),
        ("batch_size = [1]", "batch_size"),
        ("exchange = 5", "exchange"),
        ("schema = 5", "schema"),
        ("cleanup_days = 2020-01-01", "cleanup_days"),
        ("log_format = 5", "log_format"),
        ("relay = 5", "relay"),
        (f"batch_size = 1{'0' * 400}", "batch_size"),
        *((f'{each} = ["amqp://user:{SECRET}@host/"]', each) for each in ("database", "broker")),
    ],
)
def test_a_value_of_the_wrong_kind_in_the_file_is_named(line: str, setting: str) -> None:
    path = write(f"[tool.postroom]\n{line}\n", "other.toml")
    text = error_of(config=path)
    assert f"{setting} in other.toml" in text
    assert SECRET not in text


# -- the file


NO_SETTINGS: list[tuple[bytes, str]] = [
    (b"[worker]\nbatch_size = 5\n", "named.toml has no table [tool.postroom]."),
    (b"[tool.postroom]\nbatchsize = 5\n", "'batchsize'"),
    (b"[tool]\npostroom = 5\n", "named.toml: [tool.postroom] has to be a table of settings."),
    (b"[[tool.postroom]]\n", "named.toml: [tool.postroom] has to be a table of settings."),
    (b"[tool.postroom]\nexchange = '\xff'\n", "named.toml is no TOML"),
    (f'[tool.postroom]\ndatabase = "postgresql://u:{SECRET}@h/d\n'.encode(), "line 2"),
]


@pytest.mark.parametrize(("content", "says"), NO_SETTINGS)
def test_a_file_that_is_named_has_to_have_settings(content: bytes, says: str) -> None:
    path = Path("named.toml")
    path.write_bytes(content)
    text = error_of(config=path)
    assert "named.toml" in text
    assert says in text
    assert SECRET not in text


@pytest.mark.parametrize("text", ["", '[tool.ruff]\nline-length = 100\n[project]\nname = "shop"\n'])
def test_other_tables_of_the_usual_file_are_nobody_s_settings(text: str) -> None:
    write(text)
    assert gather().exchange == "messaging"


def test_a_file_that_is_named_has_to_be_there(directory: Path) -> None:
    text = error_of(config=Path("nowhere.toml"))
    assert text == "cannot read nowhere.toml: No such file or directory."
    assert "Is a directory" in error_of(config=directory)


def test_a_file_that_is_named_is_read_instead_of_the_usual_one() -> None:
    write(toml(exchange="usual", batch_size=5))
    named = write(toml(exchange="named"), "named.toml")
    settings = gather(config=named)
    assert (settings.exchange, settings.batch_size) == ("named", 100)


# -- the relay of a module


def test_a_database_of_a_flag_but_not_of_the_environment_wins_over_the_relay_in_the_file() -> None:
    write(toml(relay="shop.outbox:relay"))
    settings = gather({"database": "sqlite:///shop.db"})
    assert (named_in_code(settings), settings.database) == (None, "sqlite:///shop.db")
    settings = gather(environment={"DATABASE_URL": "sqlite:///shop.db"})
    assert named_in_code(settings) == "shop.outbox:relay"


@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() - OF_THE_PROCESS))
def test_an_option_that_the_relay_of_a_module_has_been_told_is_refused(name: str) -> None:
    settings = gather({"relay": "shop:relay", name: EXAMPLES[name][0]})
    with pytest.raises(CommandError, match=f"--{name.replace('_', '-')} is for") as caught:
        refuse_unused(settings, "shop:relay")
    assert "shop:relay" in str(caught.value)
    assert "//" not in str(caught.value)


def test_options_that_are_about_the_process_go_with_the_relay_of_a_module() -> None:
    flags = {name: EXAMPLES[name][0] for name in EXAMPLES.keys() & OF_THE_PROCESS}
    settings = gather(flags | {"relay": "shop:relay", "log_level": "debug"})
    refuse_unused(settings, "shop:relay")
    assert settings.log_level == "DEBUG"


def test_the_environment_of_other_workers_does_not_disturb_the_relay_of_a_module() -> None:
    environment = {variable_of(name): EXAMPLES[name][1] for name in EXAMPLES}
    refuse_unused(gather({"relay": "shop:relay"}, environment), "shop:relay")


# -- the retry schedule


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ("tiers", RetrySchedule.tiers()),
        ("backoff", RetrySchedule.backoff()),
        ("polls", RetrySchedule.polls()),
        ("1,5,30", RetrySchedule.seconds(1, 5, 30)),
    ],
)
def test_a_retry_schedule_has_a_name_or_delays(text: str, schedule: RetrySchedule) -> None:
    made = schedule_of(gather({"retry": text, "max_retries": 4}))
    assert made == schedule.ending_after(4)
