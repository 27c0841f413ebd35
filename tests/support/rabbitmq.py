"""RabbitMQ virtual hosts and users that live as long as a test."""

import json
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from uuid import uuid4

import httpx
from yarl import URL

from tests.support.services import missing, own_name, service_url
from tests.support.waiting import PATIENCE

MANAGEMENT_PORT = 15672


@contextmanager
def temporary_vhost() -> Iterator[str]:
    """Create a vhost in which the tests may do everything, give its URL, delete it."""
    server, name = URL(service_url("POSTROOM_TEST_RABBITMQ_URL")), own_name("vhost")
    administration = administration_of(server)
    administration.create(name)
    try:
        yield str(server.with_path(f"/{name}"))
    finally:
        administration.delete(name)


class User:
    """A user of a vhost who may do nothing, until told otherwise."""

    def __init__(self, vhost_url: str, administration: "ManagementApi | Rabbitmqctl") -> None:
        self.name = own_name("user")
        self.password = f"secret_{uuid4().hex}"
        self._vhost_url = URL(vhost_url)
        self._vhost = self._vhost_url.path.removeprefix("/")
        self._administration = administration

    @property
    def url(self) -> str:
        return str(self._vhost_url.with_user(self.name).with_password(self.password))

    def set_password(self, password: str) -> None:
        """Change the password; connections that are open stay so."""
        self._administration.change_password(self.name, password)
        self.password = password

    def may(self, *, configure: str = "", write: str = "", read: str = "") -> None:
        """Allow what is named by these patterns, and nothing else."""
        self._administration.permit(self._vhost, self.name, configure, write, read)

    def may_publish(self, exchange: str, routing_keys: str) -> None:
        """Allow the routing keys of a pattern, and no others, at a topic exchange."""
        self._administration.permit_topics(self._vhost, self.name, exchange, routing_keys)


@contextmanager
def temporary_user(vhost_url: str) -> Iterator[User]:
    """Create a user for a vhost, and delete it."""
    administration = administration_of(URL(vhost_url))
    user = User(vhost_url, administration)
    administration.create_user(user.name, user.password)
    try:
        yield user
    finally:
        administration.delete_user(user.name)


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
        self._put(f"vhosts/{vhost}")

    def delete(self, vhost: str) -> None:
        self._delete(f"vhosts/{vhost}")

    def create_user(self, name: str, password: str) -> None:
        self._put(f"users/{name}", password=password, tags="")

    def change_password(self, name: str, password: str) -> None:
        self.create_user(name, password)

    def connection_properties(self) -> str:
        """Return what all clients say about themselves, as text."""
        return self._client.get("connections").text

    def delete_user(self, name: str) -> None:
        self._delete(f"users/{name}")

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

    def __init__(self, server: URL) -> None:
        self._user = server.user or "guest"

    def works(self) -> bool:
        return shutil.which("rabbitmqctl") is not None

    def create(self, vhost: str) -> None:
        everything = {"configure": ".*", "write": ".*", "read": ".*"}
        definitions = {
            "vhosts": [{"name": vhost}],
            "permissions": [{"user": self._user, "vhost": vhost, **everything}],
        }
        # In one command: each takes a second of CPU time to start.
        self._run("import_definitions", "--format", "json", given=json.dumps(definitions))

    def delete(self, vhost: str) -> None:
        self._run("delete_vhost", vhost)

    def create_user(self, name: str, password: str) -> None:
        self._run("add_user", name, password)

    def change_password(self, name: str, password: str) -> None:
        self._run("change_password", name, password)

    def connection_properties(self) -> str:
        """Return what all clients say about themselves, as text."""
        return self._run("list_connections", "client_properties")

    def delete_user(self, name: str) -> None:
        self._run("delete_user", name)

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


def administration_of(server: URL) -> ManagementApi | Rabbitmqctl:
    """Give the first way to administer a broker that works."""
    return _administration(server.with_path("/"))


@cache
def _administration(server: URL) -> ManagementApi | Rabbitmqctl:
    for administration in (ManagementApi(server), Rabbitmqctl(server)):
        if administration.works():
            return administration
    raise missing(f"RabbitMQ at {server.host}:{server.port} gives no way to create a vhost")
