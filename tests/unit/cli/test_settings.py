"""What a worker is told, and who is heard first."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from postroom.cli.errors import CommandError, Exit
from postroom.cli.settings import SETTINGS, WorkerSettings

SECRET = "s3cr:t%2Fp%40ss"
EXAMPLES: Mapping[str, tuple[Any, str, Any]] = {
    # what the flag says, the environment, the file: three values that are not the default
    "database": ("sqlite:///flag.db", "sqlite:///environment.db", "sqlite:///file.db"),
    "broker": ("amqp://flag/", "amqp://environment/", "amqp://file/"),
    "exchange": ("flag", "environment", "file"),
    "table": ("flag", "environment", "file"),
    "schema": ("flag", "environment", "file"),
    "poll_interval": (1.5, "2.5", 3.5),
    "batch_size": (11, "12", 13),
    "max_retries": (21, "22", 23),
    "cleanup_days": (0.5, "1.5", 2.5),
    "channel": ("flag", "environment", "file"),
    "cloud_events": ("/flag", "/environment", "/file"),
    "health_host": ("127.0.0.1", "127.0.0.2", "127.0.0.3"),
    "health_port": (8001, "8002", 8003),
    "log_format": ("json", "json", "json"),
    "log_level": ("debug", "WARNING", "error"),
}


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(text: str, name: str = "postroom.toml") -> Path:
    path = Path(name)
    path.write_text(text, encoding="utf-8")
    return path


def toml(**values: Any) -> str:
    lines = [f"{name} = {value!r}" for name, value in values.items()]
    return "\n".join(["[worker]", *lines, ""])


def gather(
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    config: Path | None = None,
) -> WorkerSettings:
    """Gather as the command does: a flag that is not given is None."""
    everything: dict[str, Any] = dict.fromkeys((*SETTINGS, "relay"))
    everything |= flags or {}
    return WorkerSettings.gather(everything, config, environment or {})


def error_of(*told: Any, **named: Any) -> str:
    """Give what is said about settings that cannot be."""
    with pytest.raises(CommandError) as caught:
        gather(*told, **named)
    assert caught.value.code == Exit.USAGE
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_there_is_an_example_of_each_setting() -> None:
    assert EXAMPLES.keys() == SETTINGS.keys()


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
@pytest.mark.parametrize("name", SETTINGS)
def test_a_flag_wins_over_the_environment_over_the_file_over_the_default(name: str) -> None:
    setting = SETTINGS[name]
    flag, variable, in_file = EXAMPLES[name]
    assert getattr(gather(), name) == setting.default
    write(toml(**{name: in_file}))
    assert getattr(gather(), name) == setting.read(in_file) != setting.default
    environment = {setting.variable: variable}
    assert getattr(gather(environment=environment), name) == setting.read(variable)
    assert getattr(gather({name: flag}, environment), name) == setting.read(flag)


def test_the_names_in_the_environment_are_all_different() -> None:
    variables = [setting.variable for setting in SETTINGS.values()]
    assert len(set(variables)) == len(variables)


@pytest.mark.parametrize("name", ["database", "batch_size", "log_format", "health_port"])
def test_what_is_empty_in_the_environment_is_not_told(name: str) -> None:
    write(toml(**{name: EXAMPLES[name][2]}))
    settings = gather(environment={SETTINGS[name].variable: ""})
    assert getattr(settings, name) == SETTINGS[name].read(EXAMPLES[name][2])


@pytest.mark.parametrize("source", ["flag", "environment", "file"])
def test_an_empty_channel_means_only_to_poll(source: str) -> None:
    if source == "file":
        write(toml(channel=""))
    flags = {"channel": ""} if source == "flag" else {}
    environment = {"OUTBOX_CHANNEL": ""} if source == "environment" else {}
    assert gather(flags, environment).channel is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("poll_interval", "0"),
        ("poll_interval", "-1"),
        ("poll_interval", "soon"),
        ("poll_interval", "nan"),
        ("poll_interval", "inf"),
        ("batch_size", "0"),
        ("batch_size", "1.5"),
        ("batch_size", "many"),
        ("batch_size", "1e12"),
        ("max_retries", "0"),
        ("max_retries", "-3"),
        ("cleanup_days", "-1"),
        ("cleanup_days", "1e9"),
        ("health_port", "0"),
        ("health_port", "65536"),
        ("health_port", "http"),
        ("log_format", "xml"),
        ("log_level", "LOUD"),
    ],
)
def test_a_bad_value_is_named_with_who_said_it(name: str, value: str) -> None:
    variable = SETTINGS[name].variable
    text = error_of(environment={variable: value})
    assert text.startswith(f"{variable} is {value!r}: it has to be ")
    text = error_of({name: value})
    assert text.startswith(f"--{name.replace('_', '-')} is {value!r}: it has to be ")
    write(toml(**{name: value}))
    text = error_of()
    assert text.startswith(f"{name} in postroom.toml is {value!r}: it has to be ")


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
    ],
)
def test_a_value_of_the_wrong_kind_in_the_file_is_named(line: str, setting: str) -> None:
    write(f"[worker]\n{line}\n")
    assert f"{setting} in postroom.toml" in error_of()


def test_a_bad_value_names_the_file_that_it_is_in() -> None:
    path = write(toml(batch_size=0), "other.toml")
    assert "batch_size in other.toml is 0" in error_of(config=path)


@pytest.mark.parametrize("name", ["database", "broker"])
def test_a_bad_url_is_never_shown(name: str) -> None:
    write(f'[worker]\n{name} = ["amqp://user:{SECRET}@host/"]\n')
    text = error_of()
    assert f"{name} in postroom.toml" in text
    assert SECRET not in text


# -- the file


def test_a_setting_that_is_not_known_is_named_with_those_that_are() -> None:
    write(toml(batchsize=5))
    text = error_of()
    assert "'batchsize'" in text
    assert "batch_size" in text
    assert "postroom.toml" in text


def test_a_section_that_is_not_known_is_named() -> None:
    write("[wroker]\nbatch_size = 5\n")
    text = error_of()
    assert "wroker" in text
    assert "[worker]" in text


def test_a_file_that_is_no_toml_is_named_with_the_place_of_the_fault() -> None:
    write(f'[worker]\ndatabase = "postgresql://u:{SECRET}@h/d\nexchange = "x"\n')
    text = error_of()
    assert text.startswith("postroom.toml is no TOML")
    assert "line 2" in text
    assert SECRET not in text


def test_a_file_that_is_no_text_is_no_toml() -> None:
    Path("postroom.toml").write_bytes(b"[worker]\nexchange = '\xff'\n")
    assert error_of().startswith("postroom.toml is no TOML")


def test_a_worker_that_is_no_table_is_named() -> None:
    write("worker = 5\n")
    assert "[worker] is a table" in error_of()


def test_a_file_that_is_named_has_to_be_there(directory: Path) -> None:
    text = error_of(config=Path("nowhere.toml"))
    assert text == "cannot read nowhere.toml: No such file or directory."
    assert "Is a directory" in error_of(config=directory)


def test_a_file_that_is_named_is_read_instead_of_the_usual_one() -> None:
    write(toml(exchange="usual", batch_size=5))
    named = write(toml(exchange="named"), "named.toml")
    settings = gather(config=named)
    assert (settings.exchange, settings.batch_size) == ("named", 100)


def test_an_empty_file_says_nothing() -> None:
    write("")
    assert gather() == gather(config=write("[worker]\n", "empty.toml"))


# -- the relay of a module


def test_a_relay_may_be_named_in_the_file() -> None:
    write(toml(relay="shop.outbox:relay"))
    assert gather().relay == "shop.outbox:relay"


def test_an_argument_wins_over_the_relay_in_the_file() -> None:
    write(toml(relay="shop.outbox:relay"))
    assert gather({"relay": "other:relay"}).relay == "other:relay"


def test_a_database_that_a_flag_names_wins_over_the_relay_in_the_file() -> None:
    write(toml(relay="shop.outbox:relay"))
    flags = {"database": "sqlite:///shop.db"}
    settings = gather(flags)
    assert (settings.relay, settings.database) == (None, "sqlite:///shop.db")
    settings.refuse_unused(flags)


def test_a_database_in_the_environment_leaves_the_relay_in_the_file() -> None:
    write(toml(relay="shop.outbox:relay"))
    settings = gather(environment={"DATABASE_URL": "sqlite:///shop.db"})
    assert settings.relay == "shop.outbox:relay"


@pytest.mark.parametrize("name", [name for name, each in SETTINGS.items() if each.of_relay])
def test_a_flag_that_the_relay_of_a_module_has_been_told_is_refused(name: str) -> None:
    flags = {"relay": "shop:relay", name: EXAMPLES[name][0]}
    settings = gather(flags)
    with pytest.raises(CommandError, match=f"--{name.replace('_', '-')} is for") as caught:
        settings.refuse_unused(flags)
    assert "shop:relay" in str(caught.value)
    assert "//" not in str(caught.value)


def test_flags_that_are_about_the_process_go_with_the_relay_of_a_module() -> None:
    flags = {
        "relay": "shop:relay",
        "health_port": 8080,
        "health_host": "127.0.0.1",
        "log_format": "json",
        "log_level": "debug",
    }
    settings = gather(flags)
    settings.refuse_unused(flags)
    assert settings.log_level == "DEBUG"


def test_the_environment_of_other_workers_does_not_disturb_the_relay_of_a_module() -> None:
    environment = {SETTINGS[name].variable: EXAMPLES[name][1] for name in SETTINGS}
    gather({"relay": "shop:relay"}, environment).refuse_unused({"relay": "shop:relay"})
