"""The settings of the application, read from environment variables."""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

DRIVERS = ("postgresql+asyncpg", "sqlite+aiosqlite")

Seconds = Annotated[float, Field(gt=0, le=24 * 3600)]


class EventDispatch(StrEnum):
    """Whether handlers run from the outbox, or in the request that raised the event."""

    OUTBOX = "outbox"
    IN_PROCESS = "in_process"


class Settings(BaseSettings):
    """One field for each environment variable; the README has a table of them."""

    # A value that does not validate may be a URL with a password in it.
    model_config = SettingsConfigDict(frozen=True, env_ignore_empty=True, hide_input_in_errors=True)

    database_url: str = Field(default="sqlite+aiosqlite:///accounts.db", repr=False)
    event_dispatch: EventDispatch = EventDispatch.OUTBOX
    outbox_poll_interval: Seconds = 30
    outbox_lease: Seconds = 30
    metrics_enabled: bool = False
    tracing_enabled: bool = False
    otel_service_name: str = "accounts"
    otel_traces_exporter: Literal["otlp", "console"] = "otlp"

    @field_validator("database_url")
    @classmethod
    def _check_driver(cls, url: str) -> str:
        try:
            driver = make_url(url).drivername
        except (ArgumentError, ValueError):
            raise ValueError("this is not the URL of a database") from None
        if driver not in DRIVERS:
            raise ValueError(f"the URL begins with {'://, or '.join(DRIVERS)}://")
        return url

    @classmethod
    def load(cls) -> Self:
        """Read the environment; end the process with a line for each variable that is wrong."""
        try:
            return cls()
        except ValidationError as error:
            lines = [f"  {str(e['loc'][0]).upper()}: {e['msg']}" for e in error.errors()]
            raise SystemExit("\n".join(["accounts cannot start:", *lines])) from None
