"""An engine of what a user writes as a URL."""

from pathlib import Path

import pytest

from postroom.cli.database import engine_of
from postroom.cli.errors import CommandError, Exit

SECRET = "hunter2"


@pytest.mark.parametrize(
    "url",
    [
        f"{SECRET}",
        f"postgresql//ann:{SECRET}@db/shop",
        f"postgresql://ann:{SECRET}@db:port/shop",
        f"postgresql://ann:{SECRET}@db:99999/shop",
        f"mysql://ann:{SECRET}@db/shop",
        f"postgresql+pg8000://ann:{SECRET}@db/shop",
        f"postgresql+nothing://ann:{SECRET}@db/shop",
        f"oracle://ann:{SECRET}@db/shop",
        f"postgresql://ann:x@{SECRET}@db/shop",
        f"postgresql://ann:x@{SECRET}/y@db/shop",
        f"postgresql://ann:x@y/{SECRET}@db/shop",
        "",
    ],
)
def test_a_url_that_cannot_be_used_is_an_error_that_does_not_show_it(url: str) -> None:
    with pytest.raises(CommandError) as caught:
        engine_of(url)
    assert SECRET not in str(caught.value)
    assert caught.value.code == Exit.USAGE


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        ("postgres://ann@db/shop", "postgresql+asyncpg"),
        ("postgresql://ann@db/shop", "postgresql+asyncpg"),
        ("postgresql+asyncpg://ann@db/shop", "postgresql+asyncpg"),
        ("postgresql+psycopg://ann@db/shop", "postgresql+psycopg"),
        ("sqlite:///shop.db", "sqlite+aiosqlite"),
        ("sqlite+aiosqlite:///shop.db", "sqlite+aiosqlite"),
    ],
)
def test_a_url_needs_not_name_a_driver(
    url: str, driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.db").touch()
    assert engine_of(url).url.drivername == driver


def test_a_password_with_special_characters_is_read_as_it_was_written() -> None:
    url = engine_of("postgresql://ann:s3cr%3At%2Fp%40ss%23%25@db:5432/shop").url
    assert (url.password, url.host, url.database) == ("s3cr:t/p@ss#%", "db", "shop")


@pytest.mark.parametrize("mode", ["disable", "require", "prefer"])
def test_the_sslmode_that_hosters_write_into_urls_is_understood(mode: str) -> None:
    engine = engine_of(f"postgresql://ann:x@db/shop?sslmode={mode}")
    _, arguments = engine.dialect.create_connect_args(engine.url)
    assert arguments["ssl"] == mode
    assert "sslmode" not in arguments
