"""The services of the test session, used for real."""

import socket
from collections.abc import Callable, Iterator
from threading import Thread

import aio_pika
import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool
from yarl import URL

from scripts.logins import Refused, postgres_login, rabbitmq_login


@pytest.fixture
def stranger() -> Iterator[str]:
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


async def test_postgres_answers_through_asyncpg(postgres_url: str) -> None:
    engine = create_async_engine(postgres_url, poolclass=NullPool)
    async with engine.connect() as connection:
        assert await connection.scalar(text("SELECT 1")) == 1


def test_the_sync_url_leads_to_the_same_database(postgres_url: str, postgres_sync_url: str) -> None:
    engine = create_engine(postgres_sync_url, poolclass=NullPool)
    with engine.connect() as connection:
        name = connection.scalar(text("SELECT current_database()"))
    assert name == make_url(postgres_url).database
    assert name != "postgres"


async def test_rabbitmq_carries_a_message_in_the_sessions_own_vhost(rabbitmq_url: str) -> None:
    assert not rabbitmq_url.endswith(":5672/")
    connection = await aio_pika.connect(rabbitmq_url, timeout=10)
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        await channel.default_exchange.publish(aio_pika.Message(b"hello"), routing_key=queue.name)
        received = await queue.get(timeout=10)
    assert received is not None
    assert received.body == b"hello"


@pytest.mark.parametrize(
    ("login", "scheme"), [(postgres_login, "postgresql"), (rabbitmq_login, "amqp")]
)
def test_an_open_port_is_not_enough(
    login: Callable[[str], str], scheme: str, stranger: str
) -> None:
    with pytest.raises(OSError, match="nothing answers"):
        login(f"{scheme}://me:pw@{stranger}/db")


def test_a_refused_login_is_an_answer(postgres_sync_url: str, rabbitmq_url: str) -> None:
    postgres = make_url(postgres_sync_url).set(drivername="postgresql", username="stranger")
    with pytest.raises(Refused, match="stranger"):
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
