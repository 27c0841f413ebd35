"""How `make services` tells a server that works from what else listens on its port."""

import socket
from collections.abc import Callable, Iterator
from threading import Thread

import pytest
from sqlalchemy import make_url
from yarl import URL

from scripts.logins import Refused, postgres_login, rabbitmq_login


@pytest.fixture
def other_server() -> Iterator[str]:
    """The address of a server that speaks neither protocol."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=_greet, args=(listener,))
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def _greet(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.sendall(b"220 mail.example ESMTP ready, what can I do for you?\r\n")
        connection.recv(1024)


@pytest.mark.parametrize(
    ("login", "scheme"), [(postgres_login, "postgresql"), (rabbitmq_login, "amqp")]
)
def test_an_open_port_is_not_enough(
    login: Callable[[str], str], scheme: str, other_server: str
) -> None:
    with pytest.raises(OSError, match="nothing answers"):
        login(f"{scheme}://me:pw@{other_server}/db")


def test_a_refused_login_is_an_answer(postgres_sync_url: str, rabbitmq_url: str) -> None:
    postgres = make_url(postgres_sync_url).set(drivername="postgresql", username="unknown")
    with pytest.raises(Refused, match="unknown"):
        postgres_login(postgres.render_as_string(hide_password=False))
    with pytest.raises(Refused, match="ACCESS_REFUSED"):
        rabbitmq_login(str(URL(rabbitmq_url).with_password("wrong")))
    with pytest.raises(Refused, match="no such vhost"):
        rabbitmq_login(str(URL(rabbitmq_url).with_path("/nowhere")))


@pytest.mark.parametrize(
    ("login", "url"),
    [
        (postgres_login, "postgresql+asyncpg://me:s3cret@127.0.0.1:5432/x"),
        (rabbitmq_login, "foo"),
    ],
)
def test_what_is_no_url_is_told_without_its_password(login: Callable[[str], str], url: str) -> None:
    with pytest.raises(Refused, match="no URL of the form") as caught:
        login(url)
    assert "s3cret" not in str(caught.value)
