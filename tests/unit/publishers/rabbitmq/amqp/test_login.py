"""What the client says when it logs in."""

import os
import socket

import pytest
from pamqp import commands

from postroom.publishers.rabbitmq.amqp.address import parse
from postroom.publishers.rabbitmq.amqp.errors import ConnectError
from postroom.publishers.rabbitmq.amqp.login import connection_name, program, start_ok

SECRET = "s3cr3t-9"
(PLAIN,) = parse(f"amqp://ann:{SECRET}@mq/shop")
(EXTERNAL,) = parse("amqps://mq/shop?auth_mechanism=external&certfile=/c.pem")


def offering(mechanisms: str) -> commands.Connection.Start:
    return commands.Connection.Start(0, 9, {"product": "RabbitMQ"}, mechanisms, "en_US")


def test_it_logs_in_by_user_and_password() -> None:
    answer = start_ok(PLAIN, offering("AMQPLAIN PLAIN"))
    assert (answer.mechanism, answer.response) == ("PLAIN", f"\0ann\0{SECRET}")


def test_or_by_certificate_without_either() -> None:
    answer = start_ok(EXTERNAL, offering("PLAIN EXTERNAL"))
    assert (answer.mechanism, answer.response) == ("EXTERNAL", "")


@pytest.mark.parametrize("offered", ["AMQPLAIN EXTERNAL", "RABBIT-CR-DEMO", "XPLAIN", ""])
def test_a_broker_without_a_mechanism_that_we_speak_is_told_what_it_offers(offered: str) -> None:
    with pytest.raises(ConnectError) as caught:
        start_ok(PLAIN, offering(offered))
    text = str(caught.value)
    assert "RabbitMQ at mq:5672/shop offers no login by PLAIN" in text
    assert f"it offers {', '.join(offered.split()) or 'none'}." in text
    assert "Add PLAIN to the broker's auth_mechanisms" in text
    assert SECRET not in text


def test_a_broker_without_external_has_its_remedy() -> None:
    with pytest.raises(ConnectError, match=r"it offers PLAIN\. .* rabbitmq_auth_mechanism_ssl"):
        start_ok(EXTERNAL, offering("PLAIN"))


def test_the_connection_is_named_by_program_host_and_process() -> None:
    here = f"{socket.gethostname()}:{os.getpid()}"
    assert connection_name(PLAIN) == f"{program()} {here}"
    (named,) = parse("amqp://mq?name=shop-outbox")
    assert connection_name(named) == f"shop-outbox {here}"


@pytest.mark.parametrize(
    ("argument", "name"),
    [
        ("/usr/bin/postroom", "postroom"),
        ("worker.py", "worker"),
        ("/srv/app/shop/__main__.py", "shop"),
        ("-c", "python"),
        ("", "python"),
    ],
)
def test_a_program_is_called_by_its_file(
    monkeypatch: pytest.MonkeyPatch, argument: str, name: str
) -> None:
    monkeypatch.setattr("sys.argv", [argument])
    assert program() == name
