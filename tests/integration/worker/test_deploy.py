"""The files of deploy/: their linters accept them, they agree with the worker, and what they start
runs. There is no container here: the same commands run as processes."""

import json
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import yaml
from sqlalchemy import URL

from postroom.cli.errors import Exit
from postroom.cli.health import ANSWER_WITHIN, ROUTES
from postroom.cli.options import WorkerSettings
from postroom.relay.loop import LEAVE_WITHIN
from postroom.relay.relay import CLOSE_WITHIN
from scripts.servers import find_program
from tests.integration.worker.deployment import DEPLOY, Dockerfile, compose, manifests, unit
from tests.support.broker import Broker
from tests.support.command import ROOT, SCRIPT, Command, Commands
from tests.support.services import missing
from tests.support.waiting import eventually

pytestmark = [pytest.mark.extended, pytest.mark.no_cover]  # it runs the worker as others do

BIN = Path(sys.executable).parent
DOCKERFILE = Dockerfile.read()
PASSWORDS = {"POSTGRES_PASSWORD": "one", "RABBITMQ_PASSWORD": "two"}
GRACE = WorkerSettings().grace
LONGEST_STOP = GRACE + 3 * LEAVE_WITHIN + CLOSE_WITHIN
"""Seconds from SIGTERM to the end of a worker at most: what is in flight, then three steps."""
CONNECTIONS = 5
"""How many a worker opens to the database at most."""
SETTINGS = {
    "DATABASE_URL",
    "RABBITMQ_URL",
    "RABBITMQ_EXCHANGE",
    "OUTBOX_TABLE",
    "OUTBOX_GRACE",
    "POSTROOM_HEALTH_HOST",
    "POSTROOM_HEALTH_PORT",
    "POSTROOM_LOG_FORMAT",
}
"""Those that deploy/ uses. A test finds each in `postroom worker --help`."""


def lint(*words: str | Path) -> None:
    """Run a linter of the virtual environment, which must find nothing."""
    program, *rest = words
    done = subprocess.run(
        [BIN / program, *rest], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def object_of(kind: str) -> dict[str, Any]:
    [found] = [each for _, each in manifests() if each["kind"] == kind]
    return found


def pod_of(kind: str) -> dict[str, Any]:
    pod: dict[str, Any] = object_of(kind)["spec"]["template"]["spec"]
    return pod


# -- linters


YAML_RULES = "{extends: relaxed, rules: {line-length: {max: 150}}}"
COMPOSE_SCHEMA = ("--builtin-schema", "vendor.compose-spec")


@pytest.mark.parametrize(
    "words",
    [
        ("hadolint", DEPLOY / "docker/Dockerfile"),
        ("check-jsonschema", *COMPOSE_SCHEMA, DEPLOY / "docker/compose.yaml"),
        ("kubernetes-validate", "--strict", *(path for path, _ in manifests())),
        ("yamllint", "--strict", "-d", YAML_RULES, DEPLOY),
    ],
    ids=lambda words: words[0],
)
def test_a_linter_accepts_the_files(words: tuple[str | Path, ...]) -> None:
    lint(*words)


def test_systemd_accepts_the_unit_and_finds_it_little_exposed(tmp_path: Path) -> None:
    analyze = find_program("systemd-analyze")
    if analyze is None:
        raise missing("systemd-analyze (Debian's package systemd) is not installed")
    text = (DEPLOY / "systemd/postroom-worker.service").read_text()
    file = tmp_path / "postroom-worker.service"
    file.write_text(text.replace("/opt/postroom/bin/postroom", str(SCRIPT)))
    for words in (["verify"], ["security", "--offline=yes", "--threshold=20"]):
        done = subprocess.run([analyze, *words, file], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stderr == ""


# -- what they say agrees with the worker


def test_every_setting_is_one_of_the_worker(tmp_path: Path) -> None:
    environment = {"COLUMNS": "300", "PATH": str(BIN)}
    help_text = subprocess.run(
        [SCRIPT, "worker", "--help"], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert {each for each in SETTINGS if each not in help_text} == set()
    pods = [pod_of(kind)["containers"][0] for kind in ("Deployment", "Job")]
    used = {each["name"] for pod in pods for each in pod.get("env", ())}
    used |= DOCKERFILE.environment.keys() - {"PATH", "PYTHONDONTWRITEBYTECODE"}
    used |= compose(PASSWORDS)["worker"]["environment"].keys()
    lines = (DEPLOY / "kubernetes/worker.env.example").read_text().splitlines()
    used |= {line.partition("=")[0] for line in lines if not line.startswith("#")}
    assert used <= SETTINGS


def test_nobody_is_killed_before_the_longest_stop_is_over() -> None:
    pod, service = pod_of("Deployment"), compose(PASSWORDS)["worker"]
    graces = {each["name"]: each["value"] for each in pod["containers"][0]["env"]}
    toml = (DEPLOY / "systemd/worker.toml.example").read_text()
    assert float(graces["OUTBOX_GRACE"]) == GRACE
    assert float(service["environment"]["OUTBOX_GRACE"]) == GRACE
    assert f"\ngrace = {GRACE:g} # seconds\n" in toml
    assert pod["terminationGracePeriodSeconds"] > LONGEST_STOP
    assert float(service["stop_grace_period"].removesuffix("s")) > LONGEST_STOP
    assert float(unit()["TimeoutStopSec"][0]) > LONGEST_STOP


def test_the_signal_to_stop_is_the_one_that_the_worker_takes() -> None:
    assert DOCKERFILE.value("STOPSIGNAL") == "SIGTERM"
    assert unit()["KillSignal"] == ["SIGTERM"]


def test_probes_ask_what_the_worker_answers_and_wait_for_a_stuck_loop() -> None:
    [container] = pod_of("Deployment")["containers"]
    [port] = container["ports"]
    assert port["containerPort"] == int(DOCKERFILE.environment["POSTROOM_HEALTH_PORT"])
    assert DOCKERFILE.value("EXPOSE") == str(port["containerPort"])
    probes = {"startupProbe": "/live", "livenessProbe": "/live", "readinessProbe": "/ready"}
    for name, path in probes.items():
        probe = container[name]
        assert probe["httpGet"] == {"path": path, "port": port["name"]}
        assert path in ROUTES
        assert probe["timeoutSeconds"] > ANSWER_WITHIN
    annotations = object_of("Deployment")["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(port["containerPort"])


def test_nobody_runs_as_root_or_can_write() -> None:
    user = DOCKERFILE.value("USER")
    assert user == "10001:10001"
    for kind in ("Deployment", "Job"):
        pod = pod_of(kind)
        of_pod, of_container = pod["securityContext"], pod["containers"][0]["securityContext"]
        assert of_pod["runAsNonRoot"]
        assert f"{of_pod['runAsUser']}:{of_pod['runAsGroup']}" == user
        assert of_container["readOnlyRootFilesystem"]
        assert not of_container["allowPrivilegeEscalation"]
        assert of_container["capabilities"] == {"drop": ["ALL"]}
        assert not pod["automountServiceAccountToken"]
    for name in ("tables", "exchange", "worker"):
        service = compose(PASSWORDS)[name]
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
    settings = unit()
    assert settings["DynamicUser"] == settings["NoNewPrivileges"] == ["yes"]
    assert settings["ProtectSystem"] == ["strict"]


def test_no_password_is_written_in_a_file() -> None:
    for name in PASSWORDS:
        with pytest.raises(KeyError):
            compose({each: "x" for each in PASSWORDS if each != name})
        assert f"\n{name}=\n" in (DEPLOY / "docker/.env.example").read_text()
    [container] = pod_of("Deployment")["containers"]
    assert [list(each) for each in container["envFrom"]] == [["secretRef"]]
    assert ".env" in (DEPLOY / "docker/.gitignore").read_text().splitlines()
    ignored = (DEPLOY / "docker/.dockerignore").read_text().splitlines()
    assert [each for each in ignored if not each.startswith("#")] == ["*", "!Dockerfile", "!*.whl"]


def test_systemd_restarts_after_a_crash_but_not_after_what_stays_wrong() -> None:
    settings = unit()
    assert settings["Restart"] == ["on-failure"]
    codes = {int(each) for each in settings["RestartPreventExitStatus"][0].split()}
    assert codes == {Exit.USAGE, Exit.SCHEMA}


def test_a_disruption_budget_leaves_a_worker_and_lets_nodes_drain_in_an_outage() -> None:
    budget, deployment = object_of("PodDisruptionBudget")["spec"], object_of("Deployment")["spec"]
    assert 1 <= budget["minAvailable"] < deployment["replicas"]
    assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    assert budget["selector"] == deployment["selector"]


def test_the_kustomization_names_the_files_and_the_image_of_this_version() -> None:
    file = DEPLOY / "kubernetes/kustomization.yaml"
    kustomization = yaml.safe_load(file.read_text())
    for each in kustomization["resources"]:
        assert (file.parent / each).is_file()
    [image] = kustomization["images"]
    [container] = pod_of("Deployment")["containers"]
    assert container["image"] == image["name"]
    [of_job] = pod_of("Job")["containers"]
    assert of_job["image"] == f"{image['newName']}:{image['newTag']}"
    project = (ROOT / "pyproject.toml").read_text()
    assert f'\nversion = "{image["newTag"]}"\n' in project
    dockerfile = (DEPLOY / "docker/Dockerfile").read_text()
    assert f"\nARG POSTROOM_VERSION={image['newTag']}\n" in dockerfile


# -- what they start runs


@pytest.fixture
def empty_database(doctor_database: URL) -> str:
    """A database without a table."""
    url = doctor_database.render_as_string(hide_password=False)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public;")
    return url


def insert(url: str) -> None:
    """Save a record, as a program of another language would."""
    with psycopg.connect(url) as connection:
        connection.execute(
            "INSERT INTO outbox (id, partition, event_type, event_version, payload, headers,"
            " status, ready, retry_count, occurred_at, created_at, updated_at)"
            " VALUES (gen_random_uuid(), 0, 'order.placed', 1, '{}', '{}',"
            " 'pending', true, 0, now(), now(), now())"
        )


def sessions(url: str) -> int:
    """Count the connections to the database, but this one."""
    query = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with psycopg.connect(url) as connection:
        [(count,)] = connection.execute(query).fetchall()
    return int(count)


async def answers(client: httpx.AsyncClient, worker: Command, path: str, code: int) -> None:
    async def answered() -> bool:
        assert not worker.ended, worker.err
        with suppress(httpx.TransportError):  # it does not listen yet
            return (await client.get(path)).status_code == code
        return False

    await eventually(answered, f"{path}: {code}")


async def run_job(postroom: Commands, words: list[str], environment: dict[str, str]) -> None:
    job = postroom(*words, **environment)
    assert await job.code() == 0, job.err


async def test_the_services_of_compose_create_the_tables_and_the_exchange_and_deliver(
    postroom: Commands,
    empty_database: str,
    rabbitmq_url: str,
    broker: Broker,
    client: httpx.AsyncClient,
    port: int,
) -> None:
    exchange = "shop"
    services = compose(PASSWORDS | {"RABBITMQ_EXCHANGE": exchange})
    here = {"DATABASE_URL": empty_database, "RABBITMQ_URL": rabbitmq_url}
    for name in ("tables", "exchange"):
        for _ in range(2):  # and every time that the others are started
            service = services[name]
            await run_job(postroom, service["command"], {**service["environment"], **here})
    queue = broker.queue("orders", "#", exchange=exchange)
    environment = {
        **DOCKERFILE.environment,
        **services["worker"]["environment"],
        **here,
        "PATH": f"{BIN}:/usr/bin:/bin",
        "POSTROOM_HEALTH_PORT": str(port),
    }
    assert "command" not in services["worker"]
    worker = postroom.execute(*DOCKERFILE.words, **environment)
    await answers(client, worker, "/live", 200)
    await answers(client, worker, "/ready", 200)
    assert b"postroom_workers" in (await client.get("/metrics")).content
    insert(empty_database)
    assert len(await broker.consume(queue, 1)) == 1
    sizing = (ROOT / "docs/operate/sizing.md").read_text()
    assert f"up to {CONNECTIONS} connections" in sizing
    assert sessions(empty_database) <= CONNECTIONS

    assert await postroom.execute(*DOCKERFILE.health_check, **environment).code() == 0
    assert await worker.stop() == 0
    assert await postroom.execute(*DOCKERFILE.health_check, **environment).code() == 1
    assert all(json.loads(line)["level"] == "info" for line in worker.err.splitlines())


def systemd_words(folder: Path) -> tuple[list[str], dict[str, str]]:
    """Give what systemd runs, and with which variables."""
    settings = unit()
    [start] = settings["ExecStart"]
    words = shlex.split(start.replace("${CREDENTIALS_DIRECTORY}", str(folder)))
    assert words[0] == "/opt/postroom/bin/postroom"
    pairs = (each.partition("=") for line in settings["Environment"] for each in line.split())
    return [str(SCRIPT), *words[1:]], {name: value for name, _, value in pairs}


def write_toml(folder: Path, database: str, broker: str, exchange: str) -> None:
    """Write the settings of the example, with other servers."""
    text = (DEPLOY / "systemd/worker.toml.example").read_text()
    for old, new in (
        ("postgresql://USER:PASSWORD@HOST:5432/DATABASE?sslmode=require", database),
        ("amqps://USER:PASSWORD@HOST:5671/VHOST", broker),
        ('"shop"', f'"{exchange}"'),
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / "worker.toml").write_text(text)


async def test_the_command_of_the_unit_delivers_until_systemd_stops_it(
    postroom: Commands,
    empty_database: str,
    rabbitmq_url: str,
    broker: Broker,
    client: httpx.AsyncClient,
    port: int,
    tmp_path: Path,
) -> None:
    exchange = broker.exchange("shop")
    queue = broker.queue("orders", "#", exchange=exchange)
    write_toml(tmp_path, empty_database, rabbitmq_url, exchange)
    words, environment = systemd_words(tmp_path)
    environment["POSTROOM_HEALTH_PORT"] = str(port)

    without_tables = postroom.execute(*words, **environment)
    assert await without_tables.code() == Exit.SCHEMA
    await run_job(postroom, ["schema", "sql", "--apply"], {"DATABASE_URL": empty_database})
    worker = postroom.execute(*words, **environment)
    await answers(client, worker, "/ready", 200)
    insert(empty_database)
    assert len(await broker.consume(queue, 1)) == 1
    assert await worker.stop() == 0

    (tmp_path / "worker.toml").write_text("[tool.postroom]\nexchagne = 'shop'\n")
    assert await postroom.execute(*words, **environment).code() == Exit.USAGE
