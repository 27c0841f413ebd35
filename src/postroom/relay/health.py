"""How a relay is, for whoever asks: an endpoint, an operator, a test."""

from dataclasses import dataclass
from enum import StrEnum


class HealthStatus(StrEnum):
    """Stopped: it does not run. Degraded: it runs, and waits for something to come back."""

    OK = "ok"
    DEGRADED = "degraded"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """A relay's state, and why it is not well."""

    status: HealthStatus
    reason: str | None = None
    seconds: float | None = None
    """For how long it has been degraded."""
