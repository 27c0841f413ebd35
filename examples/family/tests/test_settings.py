"""What the environment may say."""

import pytest
from pydantic import ValidationError

from family.settings import Settings

GOOD = {"database_url": "postgresql://a:secret@db/f", "rabbitmq_url": "amqp://a:secret@mq"}


def test_settings_do_not_show_a_password() -> None:
    settings = Settings.model_validate(GOOD)
    assert "secret" not in f"{settings} {settings!r} {settings.database}"
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate(GOOD | {"rabbitmq_url": "http://a:secret@mq"})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("prefix", ["", "a b", "x" * 101, "a\n"])
def test_a_prefix_that_can_be_no_name_is_refused(prefix: str) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate(GOOD | {"rabbitmq_prefix": prefix})


def test_what_is_wrong_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "mysql://a:secret@db/f")
    monkeypatch.setenv("RABBITMQ_URL", "amqp://mq")
    monkeypatch.setenv("PUBLISH_IN_APPLICATION", "perhaps")
    with pytest.raises(SystemExit) as caught:
        Settings.load()
    said = str(caught.value)
    assert said.startswith("family cannot start:\n  DATABASE_URL: ")
    assert "\n  PUBLISH_IN_APPLICATION: " in said
    assert "secret" not in said
