"""What the AMQP client raises, as postroom's own errors."""

import pytest

from postroom.errors import ConfigurationError, ConnectionLostError, OutageError
from postroom.publishers.rabbitmq import RabbitMQPublisher
from postroom.publishers.rabbitmq.amqp.address import parse
from postroom.publishers.rabbitmq.amqp.errors import (
    AddressError,
    AmqpError,
    BlockedError,
    ClosedError,
    ConnectError,
)
from postroom.publishers.rabbitmq.outages import client_errors

SECRET = "s3cr3t-9"
(ADDRESS,) = parse(f"amqp://ann:{SECRET}@mq/shop")


@pytest.mark.parametrize(
    ("raised", "kind", "text"),
    [
        (AddressError("no such file"), ConfigurationError, "no such file"),
        (ConnectError("cannot reach it"), OutageError, "cannot reach it"),
        (BlockedError("low on memory"), OutageError, "low on memory"),
        (ClosedError(0, "reset"), ConnectionLostError, "mq:5672/shop was lost: reset"),
        (ClosedError(320, "stops"), OutageError, "mq:5672/shop was lost: stops"),
    ],
)
def test_each_error_of_the_client_has_one_of_postroom(
    raised: AmqpError, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind) as caught, client_errors(ADDRESS):
        raise raised
    assert type(caught.value) is kind
    assert text in str(caught.value)
    assert caught.value.__cause__ is raised


@pytest.mark.requirement("E10")
def test_a_url_that_cannot_be_used_is_a_configuration_error_without_the_password() -> None:
    with pytest.raises(ConfigurationError, match="Its form is amqp://") as caught:
        RabbitMQPublisher(f"http://ann:{SECRET}@mq/shop", exchange="e")
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.requirement("E10")
def test_a_publisher_as_text_shows_no_password() -> None:
    assert SECRET not in str(RabbitMQPublisher(f"amqp://ann:{SECRET}@mq/shop", exchange="e"))
