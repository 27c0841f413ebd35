"""A pytest plugin: `--requirements` prints which tests prove which line of docs/requirements.md."""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "requirements.md"
LINE = re.compile(r"^- \[([ x])\] \*\*([A-E]\d+)\*\*", re.MULTILINE)
PROPERTY = "requirement"


@dataclass(slots=True)
class Proof:
    """The tests that name one requirement."""

    passing: set[str] = field(default_factory=set)
    failing: set[str] = field(default_factory=set)


def read_requirements(page: str) -> dict[str, bool]:
    """Every id of the page, in its order, and whether it is ticked as done."""
    return {identifier: tick == "x" for tick, identifier in LINE.findall(page)}


def find_problems(requirements: Mapping[str, bool], proofs: Mapping[str, Proof]) -> list[str]:
    """What is wrong: a done id without a passing test or with a failing one, an unknown id."""
    problems = []
    for identifier, done in requirements.items():
        proof = proofs.get(identifier, Proof())
        if done and not proof.passing:
            problems.append(f"{identifier} is done, and no passing test names it")
        if done and proof.failing:
            problems.append(f"{identifier} is done, and a test of it fails")
    for identifier in sorted(proofs.keys() - requirements.keys()):
        tests = ", ".join(sorted(proofs[identifier].passing | proofs[identifier].failing))
        problems.append(f"{identifier} is not in docs/requirements.md, but named by {tests}")
    return problems


def format_table(requirements: Mapping[str, bool], proofs: Mapping[str, Proof]) -> list[str]:
    """One line per id, and one per test below it."""
    lines = []
    for identifier, done in requirements.items():
        proof = proofs.get(identifier, Proof())
        tick = "x" if done else " "
        counts = f"{len(proof.passing)} passing, {len(proof.failing)} failing"
        lines.append(f"[{tick}] {identifier:<4} {counts}")
        lines += [f"           {test}" for test in sorted(proof.passing)]
        lines += [f"    FAILED {test}" for test in sorted(proof.failing)]
    return lines


class RequirementsReport:
    """Gathers outcomes; the ids travel in the reports, so that xdist's controller sees them too."""

    def __init__(self, requirements: Mapping[str, bool]) -> None:
        self._requirements = requirements
        self._proofs: dict[str, Proof] = defaultdict(Proof)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, identifier in report.user_properties:
            if name == PROPERTY:
                self._note(str(identifier), report)

    def _note(self, identifier: str, report: pytest.TestReport) -> None:
        test = report.nodeid.split("[")[0]
        proof = self._proofs[identifier]
        if report.failed:
            proof.failing.add(test)
            proof.passing.discard(test)
        elif report.when == "call" and report.passed and test not in proof.failing:
            proof.passing.add(test)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if find_problems(self._requirements, self._proofs):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        elif session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("requirements")
        for line in format_table(self._requirements, self._proofs):
            terminalreporter.line(line)
        for problem in find_problems(self._requirements, self._proofs):
            terminalreporter.line(problem, red=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--requirements", action="store_true", help="print requirement → tests")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--requirements"):
        report = RequirementsReport(read_requirements(PAGE.read_text(encoding="utf-8")))
        config.pluginmanager.register(report, "requirements-report")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker in item.iter_markers("requirement"):
            item.user_properties += [(PROPERTY, identifier) for identifier in marker.args]
