"""Where a broker is, and who asks: an AMQP URL taken apart, and shown without its password."""

import ssl
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from postroom.publishers.rabbitmq.amqp.errors import AddressError

PORTS = {"amqp": 5672, "amqps": 5671}
SHAPE = "amqp://user:password@host:5672/vhost, or amqps:// for TLS"
CERTIFICATES = {"cafile", "capath", "certfile", "keyfile"}
OPTIONS = {*CERTIFICATES, "no_verify_ssl", "heartbeat", "name"}
HEARTBEAT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A broker's address. As text it has no password."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    vhost: str
    tls: bool
    heartbeat: int
    """Seconds between signs of life; the broker may ask for fewer. 0 asks for none."""
    name: str
    """Of the connection, as the broker's own tools list it."""
    options: dict[str, str]

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        vhost = "" if self.vhost == "/" else quote(self.vhost, safe="")
        return f"{host}:{self.port}/{vhost}"

    @classmethod
    def parse(cls, url: str) -> "Address":
        """Read a URL as RabbitMQ's clients do. Raises AddressError, without the password."""
        parts = _split(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        if unknown := sorted(options.keys() - OPTIONS):
            raise AddressError(
                f"the broker's URL has an option {unknown[0]!r}. It knows"
                f" {', '.join(sorted(OPTIONS))}."
            )
        return cls(
            host=parts.hostname or "localhost",
            port=parts.port or PORTS[parts.scheme],
            user=unquote(parts.username or "guest"),
            password="guest" if parts.password is None else unquote(parts.password),
            vhost=unquote(parts.path[1:]) or "/",
            tls=parts.scheme == "amqps",
            heartbeat=_seconds(options.get("heartbeat", str(HEARTBEAT))),
            name=options.get("name", "postroom"),
            options=options,
        )

    def tls_context(self) -> ssl.SSLContext | None:
        """Make what a TLS connection is checked with; None for a plain one."""
        if not self.tls:
            return None
        files = {name: self.options.get(name) for name in CERTIFICATES}
        try:
            context = ssl.create_default_context(cafile=files["cafile"], capath=files["capath"])
            if files["certfile"]:
                context.load_cert_chain(files["certfile"], files["keyfile"])
        except OSError as error:
            raise AddressError(
                f"the certificates that the URL of {self} names cannot be read: {error}"
            ) from error
        if self.options.get("no_verify_ssl", "0") not in ("0", ""):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises if it is no number
    except ValueError:
        raise AddressError(f"the broker's URL cannot be read. Its form is {SHAPE}.") from None
    if parts.scheme not in PORTS:
        scheme = f"begins with {parts.scheme!r}" if parts.scheme else "has no scheme"
        raise AddressError(f"the broker's URL {scheme}. Its form is {SHAPE}.")
    if parts.fragment or "@" in parts.path + parts.query:
        raise AddressError(
            "the broker's URL has a character in its user or password that has to be written"
            " otherwise: %2F for /, %3F for ?, %23 for #, %40 for @."
        )
    if "/" in parts.path[1:]:
        raise AddressError(
            "the broker's URL has more than one / in its path, which is the name of a vhost."
            " Write %2F for a / that is part of it."
        )
    return parts


def _seconds(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise AddressError(f"heartbeat is {text!r} in the broker's URL. It is a number of seconds.")
    return int(text)
