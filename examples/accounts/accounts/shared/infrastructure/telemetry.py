"""Metrics and traces, each switched on by a setting."""

from collections.abc import Callable

from fastapi import FastAPI
from postroom import OutboxRelay

from accounts.settings import Settings

Watch = Callable[[OutboxRelay], None]
"""Adds metrics or traces to a relay."""

MISSING = "accounts cannot start: {} is not installed. METRICS_ENABLED and TRACING_ENABLED need {}"
INSTALL = "the extra `telemetry`: pip install 'accounts[telemetry]'"


def install(app: FastAPI, settings: Settings) -> list[Watch]:
    """Install what the settings switch on; return functions to call with the relay.

    Packages of the extra `telemetry` are imported only when they are used.
    """
    watches: list[Watch] = []
    try:
        if settings.metrics_enabled:
            from accounts.shared.infrastructure.metrics import serve_metrics

            watches.append(serve_metrics(app))
        if settings.tracing_enabled:
            from accounts.shared.infrastructure.tracing import trace_requests

            watches.append(trace_requests(app, settings))
    except ModuleNotFoundError as error:
        raise SystemExit(MISSING.format(error.name, INSTALL)) from None
    return watches
