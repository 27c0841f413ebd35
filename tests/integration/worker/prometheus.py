"""A Prometheus of a test's own, and promtool, which comes with it."""

import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from scripts.servers import HOST, find_program
from tests.support.command import ROOT
from tests.support.ports import free_ports
from tests.support.services import missing
from tests.support.waiting import PATIENCE, eventually

ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/postroom.json").read_text())
PANELS: list[str] = [
    target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())
]
"""The queries of the dashboard."""


def promtool(*words: str, stdin: str = "") -> str:
    """Run promtool; give what it prints. Fails with that if it finds a fault."""
    done = subprocess.run(
        [_program("promtool"), *words], input=stdin, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@asynccontextmanager
async def prometheus_of(target: str, home: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Start a Prometheus that scrapes a target each second, with our alerts; give its API."""
    (home / "prometheus.yml").write_text(_settings(target), encoding="utf-8")
    [port] = free_ports(1)
    process = _start(home, port)
    address = f"http://{HOST}:{port}"
    try:
        async with httpx.AsyncClient(base_url=address, timeout=PATIENCE, trust_env=False) as api:
            await eventually(lambda: _is_ready(api))
            yield api
    finally:
        process.kill()
        process.wait()


async def value(api: httpx.AsyncClient, query: str) -> float | None:
    """Give the value that Prometheus has for a query; None if it has none."""
    answer: dict[str, Any] = (await api.get("/api/v1/query", params={"query": query})).json()
    assert answer["status"] == "success", answer
    result = answer["data"]["result"]
    return float(result[0]["value"][1]) if result else None


def _start(home: Path, port: int) -> subprocess.Popen[bytes]:
    words = [f"--config.file={home / 'prometheus.yml'}", f"--storage.tsdb.path={home / 'data'}"]
    words += [f"--web.listen-address={HOST}:{port}", "--log.level=warn"]
    with (home / "prometheus.log").open("wb") as err:
        return subprocess.Popen([_program("prometheus"), *words], cwd=home, stderr=err)


def _settings(target: str) -> str:
    """Write the settings, in JSON: that is YAML too."""
    scrape = {"job_name": "worker", "static_configs": [{"targets": [target]}]}
    return json.dumps(
        {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "scrape_configs": [scrape],
            "rule_files": [str(ALERTS)],
        }
    )


async def _is_ready(api: httpx.AsyncClient) -> bool:
    try:
        return (await api.get("/-/ready")).status_code == 200
    except httpx.TransportError:
        return False


def _program(name: str) -> str:
    found = find_program(name)
    if found is None:
        raise missing(f"{name} (Debian's package prometheus) is not installed")
    return found
