"""A pytest plugin: prints at the end where the time went, folder by folder."""

from collections import Counter, defaultdict

import pytest


class TimeReport:
    """Adds up how long tests took, with their fixtures."""

    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        folder = "/".join(report.nodeid.split("/")[:2])
        self._seconds[folder] += report.duration
        self._tests[folder] += report.when == "call"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("seconds in tests, by folder")
        for folder, seconds in sorted(self._seconds.items(), key=lambda item: -item[1]):
            terminalreporter.line(f"{folder:<20} {seconds:7.1f} s  {self._tests[folder]:5} tests")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the workers of pytest-xdist print nothing
        config.pluginmanager.register(TimeReport(), "time-report")
