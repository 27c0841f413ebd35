"""The servers and programs that the tests need: where to look for one, how to start one."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.logins import Refused, postgres_login, rabbitmq_login

ROOT = Path(__file__).resolve().parents[1]
STATE = ROOT / ".services"
HOST = "127.0.0.1"
CREATE_ROLE = """DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'postroom') THEN
        CREATE ROLE postroom LOGIN PASSWORD 'postroom';
    END IF;
    ALTER ROLE postroom CREATEDB CREATEROLE;
END $$"""


class Unavailable(Exception):  # noqa: N818 - its text is the one line that the user reads
    """Raised when no step leads to a server that lets the tests in."""


@dataclass(frozen=True)
class Found:
    """A server that let us in."""

    url: str
    version: str


class Service:
    """What the steps to a running server have to know about one kind of it."""

    name: str
    variable: str
    packages: Sequence[str]
    compose_name: str
    login: Callable[[str], str]

    def __init__(self, port: int) -> None:
        self.port = port
        self.home = STATE / self.compose_name

    def find(self) -> Found | None:
        """Log in at the first URL that lets us in; None when nothing answers."""
        refusals = []
        for url in self.urls():
            try:
                return Found(url, self.login(url))
            except Refused as refusal:
                refusals.append(f"{masked(url)}: {refusal}")
            except OSError:
                continue
        if refusals:
            raise Unavailable(f"{self.name} refuses {'; '.join(refusals)}: set {self.variable}")
        return None

    def urls(self) -> list[str]:
        """Where to look: what the environment names, else what a usual server would accept."""
        given = os.environ.get(self.variable)
        return [given] if given else self.candidates()

    def candidates(self) -> list[str]:
        """The URLs to try when the environment names none, in order."""
        raise NotImplementedError

    def installed(self) -> bool:
        """Whether `start` has something to start."""
        raise NotImplementedError

    def start(self) -> None:
        """Start what is installed: the system's as root, else a private one below .services/."""
        raise NotImplementedError


class PostgreSQL(Service):
    name = "PostgreSQL"
    variable = "POSTROOM_TEST_POSTGRES_URL"
    packages = ("postgresql",)
    compose_name = "postgres"
    login = staticmethod(postgres_login)

    def candidates(self) -> list[str]:
        address = f"{HOST}:{self.port}/postgres"
        return [f"postgresql://postroom:postroom@{address}", f"postgresql://postgres@{address}"]

    def installed(self) -> bool:
        return self._program("initdb") is not None

    def start(self) -> None:
        if is_root():
            self._start_cluster()
        else:
            self._start_private()

    def _start_cluster(self) -> None:
        version, name, status = self._cluster()
        if status != "online":
            run("pg_ctlcluster", "--skip-systemctl-redirect", version, name, "start")
        psql = f"psql --port={self.port} --set=ON_ERROR_STOP=1 --dbname=postgres".split()
        run(*psql, f"--command={CREATE_ROLE}", user="postgres")

    def _cluster(self) -> tuple[str, str, str]:
        listed = subprocess.run(["pg_lsclusters", "-h"], check=True, capture_output=True, text=True)
        for line in listed.stdout.splitlines():
            version, name, port, status = line.split()[:4]
            if port == str(self.port):
                return version, name, status
        version = Path(str(self._program("initdb"))).parents[1].name
        run("pg_createcluster", "--port", str(self.port), version, "postroom")
        return version, "postroom", "down"

    def _start_private(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        data, password = self.home / "data", self.home / "password"
        if not (data / "PG_VERSION").exists():
            password.write_text("postroom\n")
            login = ("--username=postroom", "--auth=scram-sha-256", f"--pwfile={password}")
            run(str(self._program("initdb")), "--encoding=UTF8", *login, f"--pgdata={data}")
        options = f"-p {self.port} -c listen_addresses={HOST} -c unix_socket_directories="
        log = f"--log={self.home / 'log'}"
        run(str(self._program("pg_ctl")), "start", "--wait", f"--pgdata={data}", log, "-o", options)

    def _program(self, name: str) -> str | None:
        debian = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=_major)
        return str(debian[-1]) if debian else shutil.which(name)


class RabbitMQ(Service):
    name = "RabbitMQ"
    variable = "POSTROOM_TEST_RABBITMQ_URL"
    packages = ("rabbitmq-server",)
    compose_name = "rabbitmq"
    login = staticmethod(rabbitmq_login)

    def candidates(self) -> list[str]:
        return [f"amqp://guest:guest@{HOST}:{self.port}/"]

    def installed(self) -> bool:
        return self._program() is not None

    def start(self) -> None:
        if is_root():  # by its HTTP API, the tests create a vhost each in 0.1 s
            run("rabbitmq-plugins", "enable", "rabbitmq_management")
        if self.find() is None:  # its package may have started it
            private = {} if is_root() else self._private_environment()
            run(str(self._program()), "-detached", environment=private)

    def _private_environment(self) -> dict[str, str]:
        """A node with nothing of the system's, and the management plugin to create vhosts by."""
        self.home.mkdir(parents=True, exist_ok=True)
        plugins, settings = self.home / "enabled_plugins", self.home / "rabbitmq.conf"
        plugins.write_text("[rabbitmq_management].\n")
        settings.write_text(f"listeners.tcp.1 = {HOST}:{self.port}\nmanagement.tcp.ip = {HOST}\n")
        return {
            "RABBITMQ_NODENAME": f"postroom-{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self.port + 20000),
            "RABBITMQ_CONFIG_FILE": str(settings),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
            "RABBITMQ_MNESIA_BASE": str(self.home / "data"),
            "RABBITMQ_LOG_BASE": str(self.home / "log"),
        }

    def _program(self) -> str | None:
        # Debian's rabbitmq-server on PATH is for root only; the real one stands here.
        debian = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
        if debian.exists() and not is_root():
            return str(debian)
        return shutil.which("rabbitmq-server")


@dataclass(frozen=True)
class Program:
    """A program that tests start by themselves. Its name is that of Debian's package, too."""

    name: str
    other_names: Sequence[str] = ()
    variable: str = ""
    """The environment variable that may hold its path."""
    is_service: bool = True
    """Whether Debian's package starts it."""

    def find(self) -> str | None:
        """Find it where the environment says, else by its names."""
        if self.variable in os.environ:
            return shutil.which(os.environ[self.variable])
        return next(filter(None, map(find_program, (self.name, *self.other_names))), None)


CHROMIUM = Program(
    "chromium-headless-shell",  # a page takes a quarter of the time that it takes in the others
    other_names=("chromium", "chromium-browser", "google-chrome"),
    variable="POSTROOM_TEST_CHROMIUM",
    is_service=False,
)


def find_program(name: str) -> str | None:
    """Find a program, also where Debian puts those of servers, to which not every PATH leads."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


def masked(text: str) -> str:
    """The text with the password of every URL in it hidden."""
    text = re.sub(r"(://[^:@/\s]*:)\S*@", r"\1***@", text)
    return re.sub(r"([?&]\w*password=)[^&\s]*", r"\1***", text)


def run(
    *command: str, environment: Mapping[str, str] | None = None, user: str | None = None
) -> None:
    """Run a command; what it prints goes to .services/log, which a server may inherit for good."""
    STATE.mkdir(exist_ok=True)
    directory = "/" if user else ROOT  # the other user may not be let in here
    variables = {**os.environ, **(environment or {})}
    with (STATE / "log").open("ab") as log:
        subprocess.run(
            command, check=True, stdout=log, stderr=log, env=variables, user=user, cwd=directory
        )


def is_root() -> bool:
    return os.geteuid() == 0


def _major(program: Path) -> int:
    return int(program.parents[1].name)
