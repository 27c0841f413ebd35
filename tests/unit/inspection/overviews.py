"""What an inspector says of an outbox, as a value."""

from datetime import UTC, datetime
from typing import Any

from postroom.inspection import Overview

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def overview(**values: Any) -> Overview:
    """Return the overview of an empty outbox; `values` are what it says otherwise."""
    counts = ("ready", "waiting", "parked", "paused", "failed", "published", "blocked_keys")
    lists = ("event_types", "workers", "waiting_routes", "pauses", "problems")
    empty: dict[str, Any] = {"now": NOW, "is_exact": True, "in_per_minute": 0, "out_per_minute": 0}
    empty |= dict.fromkeys(counts, 0) | dict.fromkeys(lists, ())
    empty |= dict.fromkeys(("oldest_pending", "oldest_ready"))
    return Overview(**empty | values)
