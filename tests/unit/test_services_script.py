"""The parts of `make services` that decide without a server."""

import os
import sys
from pathlib import Path

import pytest

from scripts import servers, services
from scripts.servers import CHROMIUM, Found, PostgreSQL, Program, RabbitMQ, Unavailable, masked

FREE_PORT = 1  # reserved, and nothing listens there


class FakeServer(PostgreSQL):
    """A server that lets us in once it was started."""

    def __init__(self, *, running: bool = False, installed: bool = False) -> None:
        super().__init__(FREE_PORT)
        self.running = running
        self.is_installed = installed

    def find(self) -> Found | None:
        return Found(self.urls()[0], "16") if self.running else None

    def installed(self) -> bool:
        return self.is_installed

    def start(self) -> None:
        self.running = True


@pytest.fixture(autouse=True)
def _bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POSTROOM_TEST_POSTGRES_URL", raising=False)
    monkeypatch.delenv("POSTROOM_TEST_RABBITMQ_URL", raising=False)
    monkeypatch.delenv("POSTROOM_TEST_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", "")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("amqp://guest:s3cret@host:5672/", "amqp://guest:***@host:5672/"),
        ("postgresql://me:p@ss:word@host/db", "postgresql://me:***@host/db"),
        (
            "postgresql://host/db?user=me&password=s3cret",
            "postgresql://host/db?user=me&password=***",
        ),
        ("postgresql://postgres@host/db", "postgresql://postgres@host/db"),
        ("no URL at all", "no URL at all"),
    ],
)
def test_a_password_is_never_shown(text: str, shown: str) -> None:
    assert masked(text) == shown


def test_the_environment_names_the_only_url_to_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTROOM_TEST_RABBITMQ_URL", "amqp://me:pw@elsewhere/")
    assert RabbitMQ(5672).urls() == ["amqp://me:pw@elsewhere/"]


def test_a_running_server_is_used_as_it_is() -> None:
    _, how = services.provide(FakeServer(running=True, installed=True))
    assert how == "was running"


def test_an_installed_server_is_started() -> None:
    _, how = services.provide(FakeServer(installed=True))
    assert how == "started"


def test_one_line_says_what_to_do_when_nothing_helps() -> None:
    with pytest.raises(
        Unavailable, match=r"^no PostgreSQL here: .* set POSTROOM_TEST_POSTGRES_URL$"
    ):
        services.provide(FakeServer())


def test_a_url_from_the_environment_that_does_not_answer_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("POSTROOM_TEST_POSTGRES_URL", "postgresql://me:s3cret@127.0.0.1:1/db")
    with pytest.raises(
        Unavailable, match=r"no PostgreSQL answers at postgresql://me:\*\*\*@127\.0\.0\.1:1/db"
    ):
        services.provide(FakeServer(installed=True))


@pytest.fixture
def apt_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where an apt-get, which knows no package `unknown`, writes its arguments; and be root."""
    calls, script = tmp_path / "calls", tmp_path / "apt-get"
    script.write_text(f'#!/bin/sh\necho "$@" >> {calls}\ncase "$*" in *unknown*) exit 100; esac\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(services, "is_root", lambda: True)
    monkeypatch.setattr(servers, "STATE", tmp_path / "services")
    return calls


def test_all_that_is_missing_is_installed_by_one_call(apt_calls: Path) -> None:
    programs = [Program("absent", is_service=False)]
    missing = [FakeServer(), FakeServer(running=True), FakeServer(installed=True)]
    assert services.install_missing(missing, programs) == {"postgresql", "absent"}
    assert services.install_missing([FakeServer(running=True)], []) == set()
    install = "install -y --no-install-recommends absent postgresql"
    assert apt_calls.read_text().splitlines() == ["update", install]


def test_a_package_that_cannot_be_installed_keeps_no_other_from_it(apt_calls: Path) -> None:
    programs = [Program(name, is_service=False) for name in ("absent", "unknown")]
    assert services.install_missing([], programs) == {"absent"}
    assert len(apt_calls.read_text().splitlines()) == 4


def test_a_program_that_is_there_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))
    assert services.look_for(Program(os.path.basename(sys.executable))) == "installed"


@pytest.mark.parametrize(
    ("program", "remedy"),
    [
        (Program("no-such-program"), "install no-such-program"),
        (CHROMIUM, "install chromium-headless-shell or set POSTROOM_TEST_CHROMIUM"),
    ],
)
def test_one_line_says_what_to_do_about_a_program_that_cannot_be_installed(
    capsys: pytest.CaptureFixture[str], program: Program, remedy: str
) -> None:
    assert services.look_for(program) == "missing"
    assert capsys.readouterr().err == (
        f"services: no {program.name} here, the tests that need it will fail: {remedy}\n"
    )


def test_a_program_is_found_by_any_of_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))
    python = os.path.basename(sys.executable)
    assert Program("no-such-program", other_names=(python,)).find() == sys.executable


def test_the_environment_names_the_chromium_to_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTROOM_TEST_CHROMIUM", sys.executable)
    assert CHROMIUM.find() == sys.executable


def test_a_chromium_from_the_environment_that_is_not_there_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    monkeypatch.setenv("POSTROOM_TEST_CHROMIUM", "/no/such/chromium")
    assert services.look_for(CHROMIUM) == "missing"
    line = capsys.readouterr().err
    assert " at /no/such/chromium," in line
    assert line.endswith(": set POSTROOM_TEST_CHROMIUM\n")
