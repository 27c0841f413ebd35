"""The options of a URL that are about TLS."""

import ssl
from pathlib import Path

import pytest

from postroom.publishers.rabbitmq.amqp.errors import AddressError
from postroom.publishers.rabbitmq.amqp.tls import tls_context


@pytest.mark.parametrize("options", [{}, {"no_verify_ssl": "0"}, {"verify": "verify_peer"}])
def test_the_broker_is_checked(options: dict[str, str]) -> None:
    context = tls_context(options)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


@pytest.mark.parametrize("options", [{"no_verify_ssl": "1"}, {"verify": "verify_none"}])
def test_unless_the_url_says_otherwise(options: dict[str, str]) -> None:
    context = tls_context(options)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)


@pytest.mark.parametrize("option", ["cafile", "cacertfile", "certfile"])
@pytest.mark.parametrize("content", [None, "no certificate"])
def test_certificates_that_cannot_be_read_are_named(
    tmp_path: Path, option: str, content: str | None
) -> None:
    file = tmp_path / "some.pem"
    if content is not None:
        file.write_text(content)
    with pytest.raises(AddressError, match="cannot be read") as caught:
        tls_context({option: str(file)})
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)
