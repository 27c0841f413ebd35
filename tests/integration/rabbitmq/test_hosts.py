"""A broker with several hosts: the first that lets us in is used, and the next after a loss."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import NamedTuple

import pytest
from pamqp.header import ProtocolHeader
from sqlalchemy.ext.asyncio import AsyncEngine
from yarl import URL

from postroom import ConfigurationError, HealthStatus, OutboxRelay, UntypedEvent
from postroom.publishers.rabbitmq import RabbitMQPublisher
from postroom.publishers.rabbitmq.amqp import confirms
from postroom.publishers.rabbitmq.amqp.cluster import Cluster
from postroom.publishers.rabbitmq.amqp.errors import AddressError, ConnectError
from tests.support.broker import Broker
from tests.support.fake_broker import SILENCE, FakeBroker, fake_broker
from tests.support.proxy import How, proxy_to
from tests.support.rows import all_delivered, save, until
from tests.support.shop import outbox
from tests.support.waiting import eventually

SECRET = "hunter2-hunter2"
SOON = timedelta(seconds=0.2)
UNKNOWN = "no.such.host.invalid:5672"


class Mute(NamedTuple):
    """A server that accepts connections and never answers."""

    server: FakeBroker

    @property
    def accepted(self) -> int:
        """How many clients have connected, and know of it: Python loses a socket before that."""
        return self.server.greetings

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server.port}"


@asynccontextmanager
async def mute_server() -> AsyncIterator[Mute]:
    async with fake_broker(lambda *_: [], {ProtocolHeader: [SILENCE]}) as server:
        yield Mute(server)


@contextmanager
def closed_port() -> Iterator[str]:
    """Give the address of a port that refuses connections."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))  # and does not listen
        yield f"127.0.0.1:{holder.getsockname()[1]}"


def several(rabbitmq_url: str, *others: str) -> str:
    """Put other hosts before that of a URL."""
    url = URL(rabbitmq_url)
    return rabbitmq_url.replace(
        f"{url.host}:{url.port}", ",".join((*others, f"{url.host}:{url.port}"))
    )


def host(rabbitmq_url: str) -> str:
    url = URL(rabbitmq_url)
    return f"{url.host}:{url.port}{url.path}"


async def connected_to(cluster: Cluster) -> str:
    connection = await cluster.connect()
    await connection.close()
    return str(connection.address)


@pytest.mark.requirement("E15")
async def test_a_host_that_is_mute_refuses_or_is_unknown_is_passed_over(rabbitmq_url: str) -> None:
    async with mute_server() as mute:
        with closed_port() as closed:
            url = several(rabbitmq_url, mute.host, closed, UNKNOWN)
            cluster = Cluster(url, within=SOON)

            async def connects() -> bool:
                try:  # on a busy machine, the host that answers may take too long, too
                    return await connected_to(cluster) == host(rabbitmq_url)
                except ConnectError:
                    return False

            for _ in range(2):  # once at least, the others are before it
                await eventually(connects)
            assert mute.accepted > 0


async def test_a_host_that_refuses_the_login_is_passed_over(rabbitmq_url: str) -> None:
    wrong = str(URL(rabbitmq_url).with_password(SECRET).with_host("localhost"))
    cluster = Cluster([wrong, rabbitmq_url])
    assert [await connected_to(cluster) for _ in range(2)] == [host(rabbitmq_url)] * 2


async def test_hosts_take_turns() -> None:
    async with fake_broker(lambda *_: []) as one, fake_broker(lambda *_: []) as two:
        cluster = Cluster([one.url, two.url])
        found = [await connected_to(cluster) for _ in range(4)]
        assert found[0] != found[1]
        assert found[:2] == found[2:]
        assert (one.connections, two.connections) == (2, 2)


async def test_the_order_of_hosts_is_drawn() -> None:
    async with fake_broker(lambda *_: []) as one, fake_broker(lambda *_: []) as two:
        first = {await connected_to(Cluster([one.url, two.url])) for _ in range(30)}
    assert len(first) == 2


async def test_if_no_host_lets_us_in_the_error_names_each_with_its_reason_in_one_line() -> None:
    async with mute_server() as mute:
        with closed_port() as closed:
            url = f"amqp://ann:{SECRET}@{mute.host},{closed},{UNKNOWN}/shop"
            with pytest.raises(ConnectError) as caught:
                await Cluster(url, within=SOON).connect()
    text = str(caught.value)
    assert f"{mute.host}/shop did not answer within 0.2 s" in text
    for unreachable in (closed, UNKNOWN):
        assert f"{unreachable}/shop: " in text
    assert "\n" not in text
    assert SECRET not in text


async def test_a_call_that_is_cancelled_leaves_the_mute_host_behind(rabbitmq_url: str) -> None:
    async with mute_server() as mute:
        cluster = Cluster(several(rabbitmq_url, mute.host), within=timedelta(hours=1))
        tasks: list[asyncio.Task[str]] = []
        for _ in range(2):  # at the second call at the latest, it is its turn
            tasks.append(asyncio.create_task(connected_to(cluster)))
            await eventually(lambda: mute.accepted + tasks[-1].done() > 0)
            if mute.accepted:
                break
        tasks[-1].cancel()
        await asyncio.wait(tasks)
        assert await connected_to(cluster) == host(rabbitmq_url)


@pytest.mark.parametrize("within", [timedelta(), timedelta(seconds=-1)])
def test_connect_within_has_to_be_a_time(within: timedelta) -> None:
    with pytest.raises(ConfigurationError, match="connect_within"):
        RabbitMQPublisher("amqp://mq", exchange="e", connect_within=within)


async def test_certificates_that_cannot_be_read_are_no_matter_of_a_host() -> None:
    with pytest.raises(AddressError, match="cannot be read"):
        await Cluster("amqps://a,b?cafile=/no/such/file").connect()


@pytest.mark.requirement("E15")
@pytest.mark.parametrize("how", [How.RST, How.STALL])
async def test_a_relay_delivers_by_the_next_host_when_the_one_in_use_is_lost(
    engine: AsyncEngine,
    broker: Broker,
    rabbitmq_url: str,
    how: How,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(confirms, "LOOK_EVERY", 0.2)  # five without a sign of life are the end
    exchange = broker.exchange("events")
    queue = broker.queue("inbox", "#", exchange=exchange)
    port = int(URL(rabbitmq_url).port or 5672)
    async with proxy_to(port) as one, proxy_to(port) as two:
        hosts = [f"127.0.0.1:{each.port}" for each in (one, two)]
        urls = [rabbitmq_url.replace(host(rabbitmq_url).split("/")[0], each) for each in hosts]
        publisher = RabbitMQPublisher([f"{each}?heartbeat=0" for each in urls], exchange=exchange)
        assert all(each in str(publisher) for each in hosts)
        relay = OutboxRelay(outbox, engine, publisher)
        async with relay.running():
            await save(engine, UntypedEvent(event_type="noted", payload={}))
            await until(engine, all_delivered)
            [used] = [each for each in hosts if each in str(publisher)]
            lost, other = (one, two) if used == hosts[0] else (two, one)
            lost.suffer(how)
            if how is How.STALL:  # is only noticed when something is sent
                await save(engine, UntypedEvent(event_type="noted", payload={}))
            await eventually(lambda: relay.health.status is HealthStatus.DEGRADED)
            assert used in str(relay.health.reason)
            if how is not How.STALL:
                await save(engine, UntypedEvent(event_type="noted", payload={}))
            await until(engine, all_delivered)
            assert f"127.0.0.1:{other.port}" in str(publisher)
            assert used not in str(publisher)
    assert broker.waiting(queue) == 2
