"""A pytest plugin: measures the coverage of few tests, for it doubles the time that a test takes.

Those are the unit, integration and console tests, but not the ones that take long and run what
others run, too: those in NOT_MEASURED, and those marked no_cover.
"""

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import postroom

ROOT = Path(__file__).parents[1]
MEASURED = {("tests", "unit"), ("tests", "integration"), ("tests", "console")}
NOT_MEASURED = (
    *("alembic", "command_connection", "commit_order", "engine_options", "interceptor"),
    *("isolation", "notify", "old_snapshot", "opentelemetry_capture", "plans", "save_order"),
    *("outboxes", "pydantic_events", "rabbitmq", "rabbitmq_hosts", "rebuilt_events", "relay"),
    *("relay_edges", "repeats", "save", "save_connections", "structured_logs"),
)


class CoverageScope:
    """Pauses the measurement, but for the tests that are measured."""

    def __init__(self, coverage: Any) -> None:
        self._coverage = coverage

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Iterator[None]:
        _import_everything()  # while it is measured
        self._coverage.cov_controller.pause()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        if _is_measured(item):
            self._coverage.cov_controller.resume()
        try:
            return (yield)
        finally:
            self._coverage.cov_controller.pause()


def pytest_configure(config: pytest.Config) -> None:
    coverage = config.pluginmanager.getplugin("_cov")
    runs_tests = hasattr(config, "workerinput") or not config.getoption("numprocesses", None)
    if coverage is not None and runs_tests:
        config.pluginmanager.register(CoverageScope(coverage), "coverage-scope")


def _import_everything() -> None:
    for module in pkgutil.walk_packages(postroom.__path__, "postroom."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def _is_measured(item: pytest.Item) -> bool:
    in_part = item.path.relative_to(ROOT).parts[:2] in MEASURED
    name = item.path.stem.removeprefix("test_")
    return in_part and name not in NOT_MEASURED and not item.get_closest_marker("no_cover")
