"""TLS on the way to RabbitMQ: what works, and what is said when it does not."""

import logging

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.errors import OutageError
from postroom.relay.health import HealthStatus
from postroom.relay.relay import OutboxRelay
from tests.chaos.broker import Broker
from tests.chaos.mailbox import Mailbox, records_in
from tests.chaos.noting_publisher import NotingPublisher
from tests.chaos.outbox import records_of_keys, running, save
from tests.support.shop import outbox
from tests.support.waiting import eventually

pytestmark = pytest.mark.extended


def tls_url(broker: Broker, options: str) -> str:
    """Give the URL of its TLS listener; an authority in it is replaced by the file of its name."""
    for authority in ("authority", "stranger"):
        path = broker.certificates.path(authority)
        options = options.replace(f"cafile={authority}", f"cafile={path}")
    return f"{broker.tls_url}?{options}"


@pytest.mark.requirement("E2")
@pytest.mark.parametrize("options", ["cafile=authority", "no_verify_ssl=1"])
async def test_records_arrive_by_tls(
    engine: AsyncEngine, broker: Broker, mailbox: Mailbox, options: str
) -> None:
    records = records_of_keys(50, 4)
    await save(engine, records)
    noting = NotingPublisher(mailbox.publisher(tls_url(broker, options)))
    relay = OutboxRelay(outbox, engine, noting)
    async with running(relay):
        await noting.delivers(len(records))
        await relay.stop()

    assert records_in(await mailbox.empty()) == {str(each.id) for each in records}
    assert noting.outages == []


async def outage_of(mailbox: Mailbox, url: str) -> str:
    """Give what is said when a publisher cannot be opened, at once."""
    publisher = mailbox.publisher(url)
    try:
        with pytest.raises(OutageError) as raised:
            await publisher.open()
    finally:
        await publisher.close()
    return str(raised.value)


def assert_one_clear_line(said: str, where: str) -> None:
    assert where in said
    assert "\n" not in said
    assert "Traceback" not in said
    assert "guest" not in said
    assert "did not answer within" not in said  # it did not take a time-out to find out


@pytest.mark.requirement("E2")
@pytest.mark.parametrize("options", ["cafile=stranger", ""], ids=["another's", "nobody's"])
async def test_a_certificate_that_nobody_vouches_for_is_an_outage_that_says_so(
    broker: Broker, mailbox: Mailbox, options: str
) -> None:
    said = await outage_of(mailbox, tls_url(broker, options))

    assert_one_clear_line(said, f"127.0.0.1:{broker.tls_port}")
    assert "certificate verify failed" in said


@pytest.mark.requirement("E2")
async def test_tls_to_a_port_without_it_is_an_outage_that_says_where(
    broker: Broker, mailbox: Mailbox
) -> None:
    url = broker.url.replace("amqp://", "amqps://")

    said = await outage_of(mailbox, f"{url}?no_verify_ssl=1")

    assert_one_clear_line(said, f"127.0.0.1:{broker.port}")


@pytest.mark.requirement("E2")
async def test_no_tls_to_a_port_with_it_is_an_outage_that_says_where(
    broker: Broker, mailbox: Mailbox
) -> None:
    url = broker.tls_url.replace("amqps://", "amqp://")

    said = await outage_of(mailbox, url)

    assert_one_clear_line(said, f"127.0.0.1:{broker.tls_port}")


@pytest.mark.requirement("E2")
async def test_a_relay_reports_a_wrong_certificate_without_a_traceback(
    engine: AsyncEngine, broker: Broker, mailbox: Mailbox, caplog: pytest.LogCaptureFixture
) -> None:
    noting = NotingPublisher(mailbox.publisher(tls_url(broker, "cafile=stranger")))
    relay = OutboxRelay(outbox, engine, noting)
    with caplog.at_level(logging.INFO):
        async with running(relay):
            await eventually(lambda: relay.health.status is HealthStatus.DEGRADED, "it says so")
            await eventually(lambda: noting.opened > 1, "it tries again")
            assert "certificate verify failed" in (relay.health.reason or "")
            await relay.stop()

    assert [each.getMessage() for each in caplog.records if each.exc_info] == []


def external_url(broker: Broker, name: str, *, by: str = "authority") -> str:
    """Give a URL that logs in by a certificate of this name."""
    made = broker.certificates.make(name, by=by)
    files = f"cacertfile={broker.certificates.path('authority')}"
    files += f"&certfile={made.certificate}&keyfile={made.key}"
    url = broker.tls_url.replace("guest:guest@", "")
    return f"{url}?auth_mechanism=external&{files}"


@pytest.mark.requirement("E2")
async def test_a_certificate_is_all_the_login_that_is_needed(
    engine: AsyncEngine, broker: Broker, mailbox: Mailbox
) -> None:
    records = records_of_keys(10, 2)
    await save(engine, records)
    relay = OutboxRelay(outbox, engine, mailbox.publisher(external_url(broker, "guest")))
    tally = await relay.run_once()

    assert tally.delivered == len(records)
    assert records_in(await mailbox.empty()) == {str(each.id) for each in records}


@pytest.mark.requirement("E2")
async def test_a_certificate_of_nobody_that_the_broker_knows_is_an_outage_that_names_it(
    broker: Broker, mailbox: Mailbox
) -> None:
    said = await outage_of(mailbox, external_url(broker, "nobody"))

    assert "refused the login by certificate" in said
    assert "nobody.pem" in said
    assert "is a user of the broker (ssl_cert_login_from)" in said


@pytest.mark.requirement("E2")
async def test_a_client_certificate_by_an_authority_that_the_broker_does_not_trust_is_an_outage(
    broker: Broker, mailbox: Mailbox
) -> None:
    said = await outage_of(mailbox, external_url(broker, "guest", by="stranger"))

    assert f"127.0.0.1:{broker.tls_port}" in said
    assert "\n" not in said
    assert "Check that the broker trusts the client certificate" in said
