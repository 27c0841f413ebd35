"""The alerts, their runbooks and the dashboard: they are valid, and name what exists."""

import json
import re
from typing import Any

import pytest
import yaml

from postroom.integrations.metrics.names import METRICS
from tests.integration.worker.prometheus import ALERTS, DASHBOARD, PANELS, promtool
from tests.support.command import ROOT

RULES: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
SITE = "https://postroom.github.io/postroom/"
NAME = re.compile(r"\bpostroom_\w+")
SUFFIXES = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_sum", "_count"),
    "summary": ("_sum", "_count"),
}
EXPORTED = {f"{name}{end}" for name, it in METRICS.items() for end in SUFFIXES[it.kind]}
LABELS = {label for it in METRICS.values() for label in it.labels}
LABELS |= {"outbox", "job", "instance", "le"}


VARIABLES = [
    each["query"]["query"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query"
]


@pytest.mark.extended
@pytest.mark.requirement("E8")
def test_promtool_accepts_the_alerts() -> None:
    assert f"{len(RULES)} rules found" in promtool("check", "rules", str(ALERTS))


@pytest.mark.extended
@pytest.mark.requirement("E8")
def test_each_alert_fires_when_it_should_and_not_before() -> None:
    tests = ALERTS.with_name("alerts_test.yml")
    assert "SUCCESS" in promtool("test", "rules", str(tests))
    tested = {
        one["alertname"]
        for each in yaml.safe_load(tests.read_text())["tests"]
        for one in each["alert_rule_test"]
        if one["exp_alerts"]
    }
    assert tested == {rule["alert"] for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_has_a_runbook_of_its_name(rule: dict[str, Any]) -> None:
    address = rule["annotations"]["runbook_url"]
    assert address.startswith(SITE), address
    path = address.removeprefix(SITE).rstrip("/")
    page = (ROOT / "docs" / f"{path}.md").read_text()
    assert f"{path}.md" in (ROOT / "mkdocs.yml").read_text()
    assert page.startswith(f"# {rule['alert']}\n")
    headings = re.findall(r"^## (.*)$", page, re.MULTILINE)
    assert headings == ["What it means", "See it", "Fix", "Not urgent"]
    overview = (ROOT / "docs/runbooks/README.md").read_text()
    assert f"| {rule['alert']} | " in (ROOT / "docs/operate/monitor.md").read_text()
    assert f"| {rule['alert']} | {rule['labels']['severity']} |" in overview


def test_the_alerts_and_the_dashboard_name_metrics_that_are_exported() -> None:
    for query in [rule["expr"] for rule in RULES] + PANELS + VARIABLES:
        names = set(NAME.findall(query))
        assert names, query
        assert names <= EXPORTED, query


def test_the_alerts_and_the_dashboard_name_labels_that_exist() -> None:
    for query in [rule["expr"] for rule in RULES] + PANELS:
        matched = re.findall(r"(\w+)=~?\"", query)
        grouped = re.findall(r"by \(([\w, ]+)\)", query)
        used = {*matched, *(name.strip() for each in grouped for name in each.split(","))}
        assert used <= LABELS, query


def test_every_metric_is_on_the_dashboard_and_in_the_docs() -> None:
    shown = {name for query in PANELS for name in NAME.findall(query)}
    for name, it in METRICS.items():
        assert shown & {f"{name}{end}" for end in SUFFIXES[it.kind]}, name
    documented = set(NAME.findall((ROOT / "docs/reference/metrics.md").read_text()))
    assert documented <= EXPORTED | METRICS.keys()
    for name, it in METRICS.items():
        assert name in documented or f"{name}_total" in documented, (name, it.kind)


@pytest.mark.extended
def test_prometheus_can_parse_every_query_of_the_dashboard() -> None:
    rules = [
        {"record": f"q{number}", "expr": query.replace("$__rate_interval", "1m")}
        for number, query in enumerate(PANELS)
    ]
    groups = {"groups": [{"name": "dashboard", "rules": rules}]}
    promtool("check", "rules", "/dev/stdin", stdin=json.dumps(groups))
