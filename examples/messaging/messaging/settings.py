"""The settings of all processes, read from environment variables."""

from datetime import timedelta
from typing import Annotated, Literal, Self

from postroom import ConfigurationError
from postroom.publishers.rabbitmq import RabbitMQPublisher
from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

Url = Annotated[str, Field(repr=False)]  # it may hold a password
MaybeUrl = Annotated[str | None, Field(repr=False)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Days = Annotated[float, Field(gt=0, le=3_653)]
Number = Annotated[int, Field(gt=0, le=10_000)]


class Settings(BaseSettings):
    """One field for each environment variable: DATABASE_URL, RABBITMQ_URL, …

    Without any, the application is one process: a SQLite file, and a broker in memory.
    """

    model_config = SettingsConfigDict(frozen=True, env_ignore_empty=True, hide_input_in_errors=True)

    database_url: Url = "sqlite+aiosqlite:///messaging.db"
    rabbitmq_url: MaybeUrl = None
    rabbitmq_exchange: str = "messaging"
    rabbitmq_queue_prefix: str = ""
    rabbitmq_audit_queue: bool = False
    outbox_poll_interval: Seconds = 5
    outbox_batch_size: Number = 100
    outbox_max_retries: Number = 10
    outbox_cleanup_days: Days = 7
    consumer_prefetch: Number = 5
    consumer_max_attempts: Number = 5
    metrics_enabled: bool = False
    tracing_enabled: bool = False
    otel_service_name: str = "messaging"
    otel_traces_exporter: Literal["otlp", "console"] = "otlp"

    @field_validator("database_url")
    @classmethod
    def _check_database(cls, url: str) -> str:
        try:
            backend = make_url(url).get_backend_name()
        except (ArgumentError, ValueError):
            raise ValueError("this is not the URL of a database") from None
        if backend not in ("postgresql", "sqlite"):
            raise ValueError("the database is PostgreSQL (postgresql://) or SQLite (sqlite://)")
        return url

    @field_validator("rabbitmq_url")
    @classmethod
    def _check_broker(cls, url: str | None) -> str | None:
        try:
            RabbitMQPublisher(url or "amqp://localhost", exchange="any")  # it does not connect
        except ConfigurationError as error:
            raise ValueError(str(error)) from None
        return url

    @property
    def poll_interval(self) -> timedelta:
        return timedelta(seconds=self.outbox_poll_interval)

    @property
    def retention(self) -> timedelta:
        return timedelta(days=self.outbox_cleanup_days)

    @classmethod
    def load(cls) -> Self:
        """Read the environment; end the process with a line for each variable that is wrong."""
        try:
            return cls()
        except ValidationError as error:
            lines = [f"  {str(e['loc'][0]).upper()}: {e['msg']}" for e in error.errors()]
            raise SystemExit("\n".join(["messaging cannot start:", *lines])) from None
