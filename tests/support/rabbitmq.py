"""RabbitMQ virtual hosts and users that live as long as a test."""

import json
import shutil
import ssl
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from typing import Any, ClassVar
from uuid import uuid4

import httpx
from yarl import URL

from tests.support.services import BROKER_SECRET, OWN, missing, own_name, service_url
from tests.support.waiting import PATIENCE

MANAGEMENT_PORT = 15672
KEPT: set[str] = set()
"""The names of the vhosts and users that exist now, and will be deleted."""


class Use:
    """What this process has done with the broker."""

    has_changed: ClassVar[bool] = False
    """Whether anything may have been created or deleted since `left_behind` looked."""


@contextmanager
def temporary_vhost() -> Iterator[str]:
    """Create a vhost, and a user who may do everything in it and nothing elsewhere.

    Gives the vhost's URL for that user, and deletes both at the end.
    """
    name, admin = own_name("vhost"), administration()
    admin.create(name)
    KEPT.add(name)
    try:
        yield str(_server().with_path(f"/{name}").with_user(name).with_password(BROKER_SECRET))
    finally:
        admin.delete(name)
        KEPT.discard(name)


class User:
    """A user of a vhost who may do nothing, until told otherwise."""

    def __init__(self, vhost_url: str) -> None:
        self.name = own_name("user")
        self.password = f"secret_{uuid4().hex}"
        self._vhost_url = URL(vhost_url)
        self._vhost = self._vhost_url.path.removeprefix("/")

    @property
    def url(self) -> str:
        return str(self._vhost_url.with_user(self.name).with_password(self.password))

    def set_password(self, password: str) -> None:
        """Change the password; connections that are open stay so."""
        administration().change_password(self.name, password)
        self.password = password

    def may(self, *, configure: str = "", write: str = "", read: str = "") -> None:
        """Allow what is named by these patterns, and nothing else."""
        administration().permit(self._vhost, self.name, configure, write, read)

    def may_publish(self, exchange: str, routing_keys: str) -> None:
        """Allow the routing keys of a pattern, and no others, at a topic exchange."""
        administration().permit_topics(self._vhost, self.name, exchange, routing_keys)


@contextmanager
def temporary_user(vhost_url: str) -> Iterator[User]:
    """Create a user for a vhost, and delete it."""
    user, admin = User(vhost_url), administration()
    admin.create_user(user.name, user.password)
    KEPT.add(user.name)
    try:
        yield user
    finally:
        admin.delete_user(user.name)
        KEPT.discard(user.name)


class ManagementApi:
    """The HTTP API: quick, and about the very broker that the URL names."""

    def __init__(self, server: URL) -> None:
        self._client = httpx.Client(
            base_url=f"http://{server.host}:{MANAGEMENT_PORT}/api",
            auth=(server.user or "guest", server.password or "guest"),
            timeout=PATIENCE,
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),  # to load authorities takes 30 ms
        )

    def works(self) -> bool:
        try:
            return self._client.get("vhosts").is_success
        except httpx.HTTPError:
            return False

    def create(self, vhost: str) -> None:
        self._client.post("definitions", json=vhost_with_user(vhost)).raise_for_status()

    def delete(self, vhost: str) -> None:
        self._delete(f"vhosts/{vhost}")
        self.delete_user(vhost)

    def create_user(self, name: str, password: str) -> None:
        self._put(f"users/{name}", password=password, tags="")

    def change_password(self, name: str, password: str) -> None:
        self.create_user(name, password)

    def connection_properties(self) -> str:
        """Return what all clients say about themselves, as text."""
        return self._client.get("connections").text

    def delete_user(self, name: str) -> None:
        self._delete(f"users/{name}")

    def names(self) -> list[str]:
        """Return the names of all vhosts and users."""
        answers = map(self._client.get, ("vhosts?columns=name", "users?columns=name"))
        return [each["name"] for answer in answers for each in answer.json()]

    def permit(self, vhost: str, user: str, configure: str, write: str, read: str) -> None:
        self._put(f"permissions/{vhost}/{user}", configure=configure, write=write, read=read)

    def permit_topics(self, vhost: str, user: str, exchange: str, write: str) -> None:
        self._put(f"topic-permissions/{vhost}/{user}", exchange=exchange, write=write, read=".*")

    def _put(self, path: str, **body: Any) -> None:
        self._client.put(path, json=body).raise_for_status()

    def _delete(self, path: str) -> None:
        self._client.delete(path).raise_for_status()


class Rabbitmqctl:
    """The command line: for a broker on this machine without the management plugin."""

    def works(self) -> bool:
        return shutil.which("rabbitmqctl") is not None

    def create(self, vhost: str) -> None:
        # In one command: each takes a second of CPU time to start.
        definitions = json.dumps(vhost_with_user(vhost))
        self._run("import_definitions", "--format", "json", given=definitions)

    def delete(self, vhost: str) -> None:
        self._run("delete_vhost", vhost)
        self.delete_user(vhost)

    def create_user(self, name: str, password: str) -> None:
        self._run("add_user", name, password)

    def change_password(self, name: str, password: str) -> None:
        self._run("change_password", name, password)

    def connection_properties(self) -> str:
        """Return what all clients say about themselves, as text."""
        return self._run("list_connections", "client_properties")

    def delete_user(self, name: str) -> None:
        self._run("delete_user", name)

    def names(self) -> list[str]:
        """Return the names of all vhosts and users."""
        return f"{self._run('list_vhosts')}\n{self._run('list_users')}".split()

    def permit(self, vhost: str, user: str, configure: str, write: str, read: str) -> None:
        self._run("set_permissions", "-p", vhost, user, configure, write, read)

    def permit_topics(self, vhost: str, user: str, exchange: str, write: str) -> None:
        self._run("set_topic_permissions", "-p", vhost, user, exchange, write, ".*")

    def _run(self, *words: str, given: str = "") -> str:
        command = ["rabbitmqctl", "--quiet", *words]
        done = subprocess.run(
            command, check=True, capture_output=True, input=given.encode(), timeout=PATIENCE
        )
        return done.stdout.decode()


def vhost_with_user(name: str) -> dict[str, list[dict[str, str]]]:
    """Define a vhost, and a user of the same name who may do everything in it."""
    salt = b"salt"
    digest = b64encode(salt + sha256(salt + BROKER_SECRET.encode()).digest()).decode()
    algorithm = {"password_hash": digest, "hashing_algorithm": "rabbit_password_hashing_sha256"}
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    return {
        "vhosts": [{"name": name}],
        "users": [{"name": name, "tags": "", **algorithm}],
        "permissions": [{"user": name, "vhost": name, **everything}],
    }


def administration() -> ManagementApi | Rabbitmqctl:
    """Give the first way to administer the tests' broker that works."""
    Use.has_changed = True
    return _administration()


def left_behind() -> frozenset[str]:
    """Name the vhosts and users of this process that nobody will delete, once."""
    if not Use.has_changed:
        return frozenset()
    Use.has_changed = False
    left = {name for name in _administration().names() if name.startswith(OWN)} - KEPT
    KEPT.update(left)  # is one test's fault only
    return frozenset(f"vhost or user {name}" for name in left)


@cache
def _administration() -> ManagementApi | Rabbitmqctl:
    server = _server()
    for each in (ManagementApi(server), Rabbitmqctl()):
        if each.works():
            return each
    raise missing(f"RabbitMQ at {server.host}:{server.port} gives no way to create a vhost")


def _server() -> URL:
    return URL(service_url("POSTROOM_TEST_RABBITMQ_URL")).with_path("/")
