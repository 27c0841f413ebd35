"""Find, start or install what the tests need; write its address down; say so in one line.

Run as `make services`, or `python -m scripts.services` from the root of the repository.
The addresses go to .services/env, where the tests read them.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit

from scripts.servers import (
    CHROMIUM,
    HOST,
    STATE,
    Found,
    PostgreSQL,
    Program,
    RabbitMQ,
    Service,
    Unavailable,
    is_root,
    masked,
    run,
)

PATIENCE = 90  # seconds for a server that was just started


def already_running(service: Service) -> bool:
    try:
        return service.find() is not None
    except Unavailable:
        if is_root() and service.installed():
            return False  # starting it again gives the tests a login
        raise


def start_installed(service: Service) -> bool:
    if not service.installed():
        return False
    tell(f"starting {service.name} ...")
    service.start()
    return True


def install_missing(services: Sequence[Service], programs: Sequence[Program]) -> set[str]:
    """Install all that is missing by one call of apt-get, if root; gives the packages."""
    packages = {
        package
        for service in services
        if not os.environ.get(service.variable) and not service.installed() and not answers(service)
        for package in service.packages
    } | {
        program.name
        for program in programs
        if not program.find() and program.variable not in os.environ
    }
    if not packages or not is_root() or shutil.which("apt-get") is None:
        return set()
    tell(f"installing {', '.join(sorted(packages))} ...")
    installed = apt_install(packages) if apt("update") else set()
    for program in programs:
        if program.name in installed and program.is_service:
            run("update-rc.d", program.name, "disable")
            run("service", program.name, "stop")  # which the package may have started
    return installed


def apt_install(packages: set[str]) -> set[str]:
    """Install Debian's packages together, else each that can be installed."""
    if apt("install", "-y", "--no-install-recommends", *sorted(packages)):
        return packages
    if len(packages) == 1:
        return set()
    return set().union(*(apt_install({package}) for package in packages))


def apt(*words: str) -> bool:
    """Run apt-get; False if it fails, which it says."""
    try:
        run("apt-get", *words, environment={"DEBIAN_FRONTEND": "noninteractive"})
    except (OSError, subprocess.SubprocessError):
        tell(f"apt-get {' '.join(words)} failed: see .services/log")
        return False
    return True


def answers(service: Service) -> bool:
    """Whether a server of this kind is there, whatever it says."""
    try:
        return service.find() is not None
    except Unavailable:
        return True


def compose_up(service: Service) -> bool:
    if shutil.which("docker") is None:
        return False
    run("docker", "info")
    tell(f"starting {service.name} in Docker ...")
    run("docker", "compose", "up", "--detach", "--wait", service.compose_name)
    return True


Step = Callable[[Service], bool]
STEPS: Mapping[str, Step] = {
    "was running": already_running,
    "started": start_installed,
    "started in Docker": compose_up,
}


def provide(service: Service, *, is_new: bool = False) -> tuple[Found, str]:
    """Take the steps in order until one leads to a server; gives it, and the step's name.

    A server that was just installed may run, but not yet as the tests need it.
    """
    if os.environ.get(service.variable):
        return require(service, wait=0), "from the environment"
    for done, step in list(STEPS.items())[is_new:]:
        try:
            if step(service):
                return require(service, PATIENCE), done
        except (OSError, subprocess.SubprocessError) as error:
            tell(f"{step.__name__} did not work for {service.name}: {masked(str(error))}")
    packages = " ".join(service.packages)
    raise Unavailable(
        f"no {service.name} here: start one on {HOST}:{service.port}, "
        f"install {packages} or Docker, or set {service.variable}"
    )


def require(service: Service, wait: float) -> Found:
    """The server, within so many seconds."""
    deadline = time.monotonic() + wait
    while True:
        try:
            if found := service.find():
                return found
            why = f"no {service.name} answers at {masked(service.urls()[0])}"
        except Unavailable as error:  # PostgreSQL refuses logins while it is starting
            why = str(error)
        if time.monotonic() >= deadline:
            raise Unavailable(why)
        time.sleep(0.2)


def look_for(program: Program) -> str:
    """Look for a program that the tests start by themselves; gives how that went.

    Without it, the tests that need it fail; all others can run.
    """
    name, variable = program.name, program.variable
    if program.find():
        return "installed"
    if variable in os.environ:
        tell(
            f"no {name} at {os.environ[variable]}, the tests that need it will fail: set {variable}"
        )
        return "missing"
    remedy = f"install {name}" + (f" or set {variable}" if variable else "")
    tell(f"no {name} here, the tests that need it will fail: {remedy}")
    return "missing"


def tell(what: str) -> None:
    """Progress, for who waits; the result is the one line on standard output."""
    print(f"services: {what}", file=sys.stderr, flush=True)


def write_addresses(addresses: Mapping[str, str]) -> None:
    STATE.mkdir(exist_ok=True)
    (STATE / "env").write_text("".join(f"{name}={url}\n" for name, url in addresses.items()))


def main(services: Sequence[Service], programs: Sequence[Program]) -> int:
    addresses, lines = {}, []
    new = install_missing(services, programs)
    for service in services:
        try:
            found, how = provide(service, is_new=not new.isdisjoint(service.packages))
        except Unavailable as error:
            tell(str(error))
            return 1
        at = urlsplit(found.url).netloc.rpartition("@")[2]
        addresses[service.variable] = found.url
        lines.append(f"{service.name} {found.version} at {at} ({how})")
    write_addresses(addresses)
    lines += [f"{program.name} ({look_for(program)})" for program in programs]
    print("services: " + ", ".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(
        main(
            [PostgreSQL(5432), RabbitMQ(5672)],
            [Program("pgbouncer"), Program("prometheus"), CHROMIUM],
        )
    )
