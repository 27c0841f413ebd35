"""The TLS options of a URL."""

import ssl
from collections.abc import Mapping
from typing import Final

from postroom.publishers.rabbitmq.amqp.errors import AddressError

VERIFY: Final = {"verify_peer": True, "verify_none": False}
TLS_OPTIONS: Final = frozenset(
    {"cacertfile", "cafile", "capath", "certfile", "keyfile", "no_verify_ssl", "verify"}
)


def check_tls(options: Mapping[str, str], *, tls: bool) -> None:
    """Raise AddressError for options that have no effect or no meaning."""
    given = sorted(options.keys() & TLS_OPTIONS)
    if given and not tls:
        raise AddressError(
            f"the broker's URL has {given[0]}, which is for TLS, and begins with amqp://."
            " Write amqps:// for TLS."
        )
    if options.get("verify", "verify_peer") not in VERIFY:
        raise AddressError(f"verify is one of {', '.join(VERIFY)} in the broker's URL.")
    if options.get("keyfile") and not options.get("certfile"):
        raise AddressError("the broker's URL has a keyfile, and no certfile that it belongs to.")


def tls_context(options: Mapping[str, str]) -> ssl.SSLContext:
    """Make what a TLS connection is checked with. Raises AddressError if a file cannot be read."""
    cafile = options.get("cafile") or options.get("cacertfile")
    capath, certfile, keyfile = map(options.get, ("capath", "certfile", "keyfile"))
    try:
        context = ssl.create_default_context(cafile=cafile, capath=capath)
        if certfile:
            # With a password, OpenSSL does not ask for one on the terminal.
            context.load_cert_chain(certfile, keyfile, password="")
    except OSError as error:
        named = ", ".join(filter(None, (cafile, capath, certfile, keyfile)))
        raise AddressError(
            f"a certificate or key that the broker's URL names cannot be read: {error}"
            f" ({named}). A key must not have a password."
        ) from error
    unverified = options.get("no_verify_ssl", "0") not in ("0", "")
    if unverified or not VERIFY[options.get("verify", "verify_peer")]:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
