"""A RabbitMQ of the tests' own, which they may stop, kill and alarm."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.servers import HOST
from tests.chaos.certificates import Certificates
from tests.support.ports import free_ports
from tests.support.services import missing
from tests.support.waiting import PATIENCE

MAX_MESSAGE_SIZE = 64 * 1024
GREETING = b"AMQP\x00\x00\x09\x01"
TOGETHER = """exec 3<&0
"$1" -port "$ERL_EPMD_PORT" -address 127.0.0.1 3<&- &
"$2" 3<&- &
server=$!
trap 'kill -TERM $server' TERM
{ cat <&3; kill -KILL 0; } &
wait $server
wait $server
kill -KILL 0"""
"""The broker and what it finds its own tools by: one ends, all end; so too if the tests do."""


class Broker:
    """Listens on ports of its own, with TLS on one; lives in a directory of its own.

    A node of a cluster is given the port of the names that all nodes share, and, unless it is the
    first, the node that it joins.
    """

    def __init__(
        self, home: Path, *, names_port: int | None = None, beside: "Broker | None" = None
    ) -> None:
        self.port, self.tls_port, self._dist_port, self._names_port = free_ports(4)
        self._beside = beside
        self.certificates = Certificates(home / "certificates")
        self.alarmed = False
        self._home = home
        self._process: subprocess.Popen[bytes] | None = None
        self._user_home = home
        """Where the cookie is, which the nodes of a cluster share."""
        self._programs = [_program("epmd"), _program("rabbitmq-server")]
        if names_port is not None:
            self._names_port = names_port
            self._programs[0] = "true"
        if beside is not None:
            self._user_home = beside._user_home

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{HOST}:{self.port}/"

    @property
    def tls_url(self) -> str:
        return f"amqps://guest:guest@{HOST}:{self.tls_port}/"

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def create(self) -> None:
        """Write down how it is to be."""
        made = self.certificates.make("server", by="authority")
        (self._home / "enabled_plugins").write_text("[rabbitmq_auth_mechanism_ssl].\n")
        (self._home / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = {HOST}:{self.port}\n"
            f"listeners.ssl.1 = {HOST}:{self.tls_port}\n"
            f"ssl_options.cacertfile = {self.certificates.path('authority')}\n"
            f"ssl_options.certfile = {made.certificate}\n"
            f"ssl_options.keyfile = {made.key}\n"
            "ssl_options.verify = verify_peer\n"  # of those that have a certificate
            "ssl_options.fail_if_no_peer_cert = false\n"
            "auth_mechanisms.1 = PLAIN\n"
            "auth_mechanisms.2 = EXTERNAL\n"
            "ssl_cert_login_from = common_name\n"
            f"max_message_size = {MAX_MESSAGE_SIZE}\n"
            "log.file = false\n"
            "log.console = true\n" + self._joining()
        )

    def _joining(self) -> str:
        if self._beside is None:
            return ""
        prefix = "cluster_formation"
        return (
            f"{prefix}.peer_discovery_backend = classic_config\n"
            f"{prefix}.classic_config.nodes.1 = {self._beside._node}\n"
            f"{prefix}.classic_config.nodes.2 = {self._node}\n"
        )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.alarmed = False
        with (self._home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", TOGETHER, "sh", *self._programs],
                env=self._environment(),
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            assert self.runs, f"RabbitMQ did not start: {self.last_words()}"
            assert time.monotonic() < deadline, f"RabbitMQ does not answer: {self.last_words()}"
            time.sleep(0.05)

    def stop(self) -> None:
        """Have it stop in an orderly way."""
        assert self._process is not None
        self._process.terminate()
        self._gone()

    def kill(self) -> None:
        """End it as a power cut would."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._gone()

    def alarm(self, *, on: bool) -> None:
        """Have it find that its memory is nearly full, so that it takes nothing; or no longer."""
        self.alarmed = on
        share = "0.0000001" if on else "0.4"
        self._call(f"vm_memory_monitor set_vm_memory_high_watermark [{share}]")
        deadline = time.monotonic() + PATIENCE
        while ("memory" in self._call("rabbit_alarm get_alarms []")) is not on:
            assert time.monotonic() < deadline, f"the alarm is not {on}: {self.last_words()}"
            time.sleep(0.01)

    def cluster_size(self) -> int:
        """Count the nodes of its cluster that run."""
        return self._call("rabbit_mnesia cluster_nodes [running]").count("chaos-")

    def _gone(self) -> None:
        assert self._process is not None
        self._process.wait(timeout=PATIENCE)
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _call(self, function: str) -> str:
        """Call a function of Erlang; rabbitmqctl does the same, and takes a second to start."""
        cookie = (self._user_home / ".erlang.cookie").read_text()
        done = subprocess.run(
            [_program("erl_call"), "-sname", self._node, "-c", cookie, "-a", function],
            check=True,
            env=self._environment(),
            cwd="/",
            stdout=subprocess.PIPE,
            timeout=PATIENCE,
        )
        return done.stdout.decode()

    def _answers(self) -> bool:
        try:
            socket.create_connection((HOST, self.tls_port), timeout=1).close()
            with socket.create_connection((HOST, self.port), timeout=5) as connection:
                connection.sendall(GREETING)
                return connection.recv(1) == b"\x01"
        except OSError:
            return False

    @property
    def _node(self) -> str:
        return f"chaos-{self.port}@localhost"

    def _environment(self) -> dict[str, str]:
        """Give what it needs to have nothing in common with another broker of this machine."""
        home = self._home
        own = {
            "HOME": self._user_home,
            "ERL_EPMD_PORT": self._names_port,
            "RABBITMQ_NODENAME": self._node,
            "RABBITMQ_DIST_PORT": self._dist_port,
            "RABBITMQ_CONFIG_FILE": home / "rabbitmq.conf",
            "RABBITMQ_ADVANCED_CONFIG_FILE": home / "advanced.config",
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_ENABLED_PLUGINS_FILE": home / "enabled_plugins",
            "RABBITMQ_MNESIA_BASE": home / "data",
            "RABBITMQ_LOG_BASE": home / "logs",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none",  # it starts faster
        }
        others = {name: value for name, value in os.environ.items() if "RABBITMQ" not in name}
        return others | {name: str(value) for name, value in own.items()}

    def last_words(self) -> str:
        """Return the end of its log."""
        return (self._home / "log").read_text(errors="replace")[-2000:]


@contextmanager
def private_broker() -> Iterator[Broker]:
    """Make a broker and start it; nothing is left of it afterwards."""
    # It may still write a file or two while its directory is removed.
    with tempfile.TemporaryDirectory(prefix="postroom-chaos-", ignore_cleanup_errors=True) as home:
        broker = Broker(Path(home))
        broker.create()
        try:
            broker.start()
            yield broker
        finally:
            if broker.runs:
                broker.kill()


@contextmanager
def erlang_names() -> Iterator[int]:
    """Run the server by which the nodes of a cluster find each other; give its port."""
    (port,) = free_ports(1)
    own = {"ERL_EPMD_PORT": str(port), "ERL_EPMD_ADDRESS": HOST}
    process = subprocess.Popen(
        ["sh", "-c", TOGETHER, "sh", "true", _program("epmd")],
        env=os.environ | own,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield port
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=PATIENCE)
        if process.stdin is not None:
            process.stdin.close()


def _program(name: str) -> str:
    # Debian's own on PATH run as another user, and only for root.
    debian = Path("/usr/lib/rabbitmq/bin", name)
    found = str(debian) if debian.exists() else shutil.which(name)
    if found is None:
        raise missing(f"RabbitMQ's {name} is not installed")
    return found
