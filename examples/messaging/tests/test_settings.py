"""The names of settings, what they are where nobody says, and what is said of a wrong one."""

from datetime import timedelta

import pytest
from pydantic import ValidationError

from messaging.settings import Settings

NAMES = (
    *("DATABASE_URL", "RABBITMQ_URL", "RABBITMQ_EXCHANGE"),
    *("RABBITMQ_QUEUE_PREFIX", "RABBITMQ_AUDIT_QUEUE"),
    *("OUTBOX_POLL_INTERVAL", "OUTBOX_BATCH_SIZE", "OUTBOX_MAX_RETRIES", "OUTBOX_CLEANUP_DAYS"),
    *("CONSUMER_PREFETCH", "CONSUMER_MAX_ATTEMPTS", "METRICS_ENABLED", "TRACING_ENABLED"),
    *("OTEL_SERVICE_NAME", "OTEL_TRACES_EXPORTER"),
)


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def test_what_holds_where_nobody_says_otherwise() -> None:
    settings = Settings()
    assert settings.model_dump() == {
        "database_url": "sqlite+aiosqlite:///messaging.db",
        "rabbitmq_url": None,
        "rabbitmq_exchange": "messaging",
        "rabbitmq_queue_prefix": "",
        "rabbitmq_audit_queue": False,
        "outbox_poll_interval": 5,
        "outbox_batch_size": 100,
        "outbox_max_retries": 10,
        "outbox_cleanup_days": 7,
        "consumer_prefetch": 5,
        "consumer_max_attempts": 5,
        "metrics_enabled": False,
        "tracing_enabled": False,
        "otel_service_name": "messaging",
        "otel_traces_exporter": "otlp",
    }
    assert settings.poll_interval == timedelta(seconds=5)
    assert settings.retention == timedelta(days=7)


def test_the_environment_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    values = (
        *("postgresql://db/m", "amqp://mq1,mq2:5673/", "m", "blue.", True, 0.5, 7, 3, 30),
        *(2, 9, True, True, "m-api", "console"),
    )
    for name, value in zip(NAMES, values, strict=True):
        monkeypatch.setenv(name, str(value))
    settings = Settings()
    assert tuple(settings.model_dump().values()) == values
    assert settings.poll_interval == timedelta(seconds=0.5)
    assert settings.retention == timedelta(days=30)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OUTBOX_POLL_INTERVAL", "soon"),
        ("OUTBOX_POLL_INTERVAL", "0"),
        ("OUTBOX_POLL_INTERVAL", "inf"),
        ("OUTBOX_BATCH_SIZE", "-1"),
        ("OUTBOX_BATCH_SIZE", "1.5"),
        ("OUTBOX_MAX_RETRIES", "0"),
        ("OUTBOX_CLEANUP_DAYS", "1e300"),
        ("RABBITMQ_AUDIT_QUEUE", "perhaps"),
        ("CONSUMER_PREFETCH", "0"),
        ("CONSUMER_MAX_ATTEMPTS", "0"),
        ("OTEL_TRACES_EXPORTER", "zipkin"),
    ],
)
def test_a_wrong_value_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValidationError, match=name.lower()):
        Settings()


def test_who_starts_it_is_told_all_that_is_wrong_and_no_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = Settings(database_url="postgresql://app:hunter2@db/messaging")
    assert "hunter2" not in repr(settings) + str(settings)
    monkeypatch.setenv("DATABASE_URL", "postgresql://app:x@db:hunter2/messaging")
    monkeypatch.setenv("RABBITMQ_URL", "http://app:hunter2@mq/")
    monkeypatch.setenv("OUTBOX_BATCH_SIZE", "0")
    with pytest.raises(SystemExit) as ended:
        Settings.load()
    first, *wrong = str(ended.value).splitlines()
    assert first == "messaging cannot start:"
    names = [line.strip().partition(":")[0] for line in wrong]
    assert names == ["DATABASE_URL", "RABBITMQ_URL", "OUTBOX_BATCH_SIZE"]
    assert "hunter2" not in str(ended.value)
