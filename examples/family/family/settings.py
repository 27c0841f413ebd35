"""The settings of the application, read from environment variables."""

from typing import Literal, Self

from postroom import ConfigurationError
from postroom.publishers.rabbitmq import RabbitMQPublisher
from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError


class DatabaseSettings(BaseSettings):
    """All that migrations need. URLs hold passwords: they are never shown."""

    model_config = SettingsConfigDict(env_ignore_empty=True, hide_input_in_errors=True)

    database_url: str = Field(repr=False, pattern=r"^postgresql(\+\w+)?://")

    @field_validator("database_url")
    @classmethod
    def _check_database(cls, url: str) -> str:
        try:
            make_url(url)
        except (ArgumentError, ValueError):
            raise ValueError("this is not the URL of a database") from None
        return url

    @property
    def database(self) -> URL:
        """The database's URL, with the driver of this application whatever it says."""
        return make_url(self.database_url).set(drivername="postgresql+asyncpg")

    @classmethod
    def load(cls) -> Self:
        """Read the environment; end the process with a line for each variable that is wrong."""
        try:
            return cls.model_validate({})
        except ValidationError as error:
            lines = [f"  {str(e['loc'][0]).upper()}: {e['msg']}" for e in error.errors()]
            raise SystemExit("\n".join(["family cannot start:", *lines])) from None


class Settings(DatabaseSettings):
    """All that the application and the worker need; the README has a table of them."""

    rabbitmq_url: str = Field(repr=False)
    rabbitmq_prefix: str = Field(default="family-hub", pattern=r"^[\w.-]{1,100}$")
    publish_in_application: bool = True
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    metrics_enabled: bool = False
    tracing_enabled: bool = False
    otel_service_name: str = "family"
    otel_traces_exporter: Literal["otlp", "console"] = "otlp"

    @field_validator("rabbitmq_url")
    @classmethod
    def _check_broker(cls, url: str) -> str:
        try:
            RabbitMQPublisher(url, exchange="any")  # it does not connect yet
        except ConfigurationError as error:
            raise ValueError(str(error)) from None
        return url
