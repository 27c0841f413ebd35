"""A RabbitMQ virtual host that lives as long as one test session."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from yarl import URL

from tests.support.services import missing

MANAGEMENT_PORT = 15672


@contextmanager
def temporary_vhost(server_url: str, name: str) -> Iterator[str]:
    """Create a vhost that the URL's user may do everything in, give its URL, delete it."""
    server = URL(server_url)
    administration = _administration(server)
    administration.create(name)
    try:
        yield str(server.with_path(f"/{name}"))
    finally:
        administration.delete(name)


class ManagementApi:
    """The HTTP API: quick, and about the very broker that the URL names."""

    def __init__(self, server: URL) -> None:
        self._address = f"http://{server.host}:{MANAGEMENT_PORT}/api/vhosts"
        self._login = (server.user or "guest", server.password or "guest")

    def works(self) -> bool:
        try:
            return httpx.get(self._address, auth=self._login).is_success
        except httpx.HTTPError:
            return False

    def create(self, vhost: str) -> None:
        httpx.put(f"{self._address}/{vhost}", auth=self._login).raise_for_status()

    def delete(self, vhost: str) -> None:
        httpx.delete(f"{self._address}/{vhost}", auth=self._login).raise_for_status()


class Rabbitmqctl:
    """The command line: for a broker on this machine without the management plugin."""

    def __init__(self, server: URL) -> None:
        self._user = server.user or "guest"

    def works(self) -> bool:
        return shutil.which("rabbitmqctl") is not None and self._run("ping", check=False)

    def create(self, vhost: str) -> None:
        self._run("add_vhost", vhost)
        self._run("set_permissions", "-p", vhost, self._user, ".*", ".*", ".*")

    def delete(self, vhost: str) -> None:
        self._run("delete_vhost", vhost)

    def _run(self, *words: str, check: bool = True) -> bool:
        command = ["rabbitmqctl", "--quiet", *words]
        done = subprocess.run(command, check=check, capture_output=True, timeout=60)
        return done.returncode == 0


def _administration(server: URL) -> ManagementApi | Rabbitmqctl:
    for administration in (ManagementApi(server), Rabbitmqctl(server)):
        if administration.works():
            return administration
    raise missing(f"RabbitMQ at {server.host}:{server.port} gives no way to create a vhost")
