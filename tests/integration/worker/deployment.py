"""The files of deploy/, taken apart: what they start, with which settings."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.command import ROOT

DEPLOY = ROOT / "deploy"
CONTINUED = re.compile(r"\\\n\s*")
VARIABLE = re.compile(r"\$\{(\w+):([-?])([^}]*)\}")


@dataclass(frozen=True)
class Dockerfile:
    """The instructions of a Dockerfile's last stage, in order."""

    instructions: tuple[tuple[str, str], ...]

    @classmethod
    def read(cls) -> "Dockerfile":
        text = CONTINUED.sub(" ", (DEPLOY / "docker/Dockerfile").read_text())
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        found = [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]
        last = max(number for number, (name, _) in enumerate(found) if name == "FROM")
        return cls(tuple(found[last:]))

    def values(self, name: str) -> list[str]:
        return [value for each, value in self.instructions if each == name]

    def value(self, name: str) -> str:
        [value] = self.values(name)
        return value

    @property
    def words(self) -> list[str]:
        """What a container runs."""
        return [*json.loads(self.value("ENTRYPOINT")), *json.loads(self.value("CMD"))]

    @property
    def environment(self) -> dict[str, str]:
        pairs = (each.partition("=") for each in shlex.split(self.value("ENV")))
        return {name: value for name, _, value in pairs}

    @property
    def health_check(self) -> list[str]:
        words: list[str] = json.loads(self.value("HEALTHCHECK").partition("CMD ")[2])
        return words


def manifests() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Give each Kubernetes object, but not the kustomization."""
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        if path.name != "kustomization.yaml":
            yield path, yaml.safe_load(path.read_text())


def compose(environment: Mapping[str, str]) -> dict[str, Any]:
    """Give the services of compose.yaml, as Compose understands them with this environment."""

    def value(found: re.Match[str]) -> str:
        name, kind, other = found.groups()
        if kind == "?" and not environment.get(name):
            raise KeyError(name)
        return environment.get(name) or other

    text = (DEPLOY / "docker/compose.yaml").read_text()
    services: dict[str, Any] = yaml.safe_load(VARIABLE.sub(value, text))["services"]
    return services


def unit() -> dict[str, list[str]]:
    """Give the settings of the systemd unit."""
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / "systemd/postroom-worker.service").read_text().splitlines():
        name, separator, value = line.partition("=")
        if separator and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found
