"""Settings that are wrong are named, and secret ones are not shown."""

from typing import Any

import pytest
from pydantic import ValidationError

from accounts.settings import EventDispatch, Settings

URL = "postgresql+asyncpg://app:hunter2@db/accounts"


def test_a_password_is_not_shown() -> None:
    settings = Settings(database_url=URL)
    assert settings.database_url == URL
    assert "hunter2" not in repr(settings) + str(settings)


def test_variables_of_the_environment_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENT_DISPATCH", "in_process")
    monkeypatch.setenv("METRICS_ENABLED", "true")
    settings = Settings.load()
    assert settings.event_dispatch is EventDispatch.IN_PROCESS
    assert (settings.metrics_enabled, settings.tracing_enabled) == (True, False)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"database_url": "postgresql://app:hunter2@db/accounts"}, "postgresql+asyncpg://"),
        ({"database_url": "postgresql+asyncpg://app:x@db:hunter2/accounts"}, "not the URL"),
        ({"database_url": "hunter2"}, "not the URL"),
        ({"event_dispatch": "hunter2"}, "'outbox' or 'in_process'"),
        ({"outbox_lease": 0}, "outbox_lease"),
        ({"outbox_poll_interval": "inf"}, "outbox_poll_interval"),
    ],
)
def test_what_is_wrong_is_named_and_not_repeated(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings(**wrong)
    assert told in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_the_process_ends_with_a_line_for_each_variable_that_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://app:hunter2@db/accounts")
    monkeypatch.setenv("OUTBOX_LEASE", "0")
    with pytest.raises(SystemExit) as ended:
        Settings.load()
    first, *lines = str(ended.value).splitlines()
    assert first == "accounts cannot start:"
    assert [line.strip().partition(":")[0] for line in lines] == ["DATABASE_URL", "OUTBOX_LEASE"]
    assert "hunter2" not in str(ended.value)
