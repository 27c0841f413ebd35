"""Reads AMQP URLs, and shows them without passwords."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from postroom.publishers.rabbitmq.amqp.errors import AddressError
from postroom.publishers.rabbitmq.amqp.tls import TLS_OPTIONS, check_tls

PORTS: Final = {"amqp": 5672, "amqps": 5671}
SHAPE: Final = "amqp://user:password@host:5672/vhost, or amqps:// for TLS"
URL: Final = re.compile(r"([a-z]*)://([^/?#]*)(.*)", re.DOTALL)
"""Scheme, authority, and the rest: urlsplit takes several hosts for one."""
HOST: Final = re.compile(
    r"(?:\[(?P<ipv6>[\w.%]*:[\w.:%]*)\]|(?P<name>[^\[\]:;\s]*))(?::(?P<port>\d{0,5}))?", re.ASCII
)
OPTIONS: Final = {*TLS_OPTIONS, "auth_mechanism", "heartbeat", "name"}
HEARTBEAT: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The address of one host. As text it has no password."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    vhost: str
    tls: bool
    heartbeat: int
    """Seconds between signs of life; the broker may ask for fewer. 0 asks for none."""
    name: str
    """Of the program, in the connection's name; empty for that of the process."""
    options: dict[str, str]

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        vhost = "" if self.vhost == "/" else quote(self.vhost, safe="")
        return f"{host}:{self.port}/{vhost}"

    @property
    def external(self) -> bool:
        """Whether the client's certificate says who it is, and not a user and a password."""
        return self.options.get("auth_mechanism", "").lower() == "external"


def parse(urls: str | Sequence[str]) -> tuple[Address, ...]:
    """Read URLs as RabbitMQ's clients do: an address for each host. Raises AddressError."""
    given: Sequence[Any] = urls if isinstance(urls, list | tuple) else [urls]
    if not given:
        raise AddressError(f"there is no URL of a broker. Its form is {SHAPE}.")
    return tuple(address for url in given for address in _parse(url))


def _parse(url: str) -> list[Address]:
    """Read one URL. An error shows no part of it that may be a password."""
    scheme, authority, rest = _split(url)
    parts = urlsplit(f"{scheme}://host{rest}")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    _check_options(scheme, options)
    if "/" in parts.path[1:]:
        raise AddressError(
            "the broker's URL has more than one / in its path, which is the name of a vhost."
            " Write %2F for a / that is part of it."
        )
    login, _, hosts = authority.rpartition("@")
    user, colon, password = login.partition(":")
    return [
        Address(
            host=host,
            port=port or PORTS[scheme],
            user=unquote(user or "guest"),
            password=unquote(password) if colon else "guest",
            vhost=unquote(parts.path[1:]) or "/",
            tls=scheme == "amqps",
            heartbeat=_seconds(options.get("heartbeat", str(HEARTBEAT))),
            name=options.get("name", ""),
            options=options,
        )
        for host, port in _hosts(hosts)
    ]


def _split(url: str) -> tuple[str, str, str]:
    """Return scheme, authority, and the rest of a URL."""
    if not isinstance(url, str):
        raise AddressError(f"the broker's URL is of type {type(url).__name__}. Give it as a text.")
    found = URL.fullmatch(url)
    if found is None or found[1] not in PORTS:
        begins = f"begins with {found[1]!r}" if found and found[1] else "has no scheme"
        raise AddressError(f"the broker's URL {begins}. Its form is {SHAPE}.")
    scheme, authority, rest = found.groups()
    if "://" in rest:
        raise AddressError(
            "the broker's URL has a second URL in it. Several hosts are written host1,host2; or"
            " give a list of URLs."
        )
    if "#" in rest or "@" in rest:
        raise AddressError(
            "the broker's URL has a character in its user or password that has to be written"
            " otherwise: %2F for /, %3F for ?, %23 for #, %40 for @."
        )
    return scheme, authority, rest


def _check_options(scheme: str, options: Mapping[str, str]) -> None:
    if unknown := sorted(options.keys() - OPTIONS):
        raise AddressError(
            f"the broker's URL has an option {unknown[0]!r}. It knows {', '.join(sorted(OPTIONS))}."
        )
    check_tls(options, tls=scheme == "amqps")
    mechanism = options.get("auth_mechanism", "plain").lower()
    if mechanism not in ("plain", "external"):
        raise AddressError("auth_mechanism is plain or external in the broker's URL.")
    if mechanism == "external" and not options.get("certfile"):
        raise AddressError(
            "auth_mechanism=external in the broker's URL needs a client certificate:"
            " amqps://host/vhost?auth_mechanism=external&certfile=…&keyfile=…"
        )


def _hosts(text: str) -> list[tuple[str, int | None]]:
    """Read hosts with or without a port: `a`, `a,b:5673`, `[::1]:5672`; none is localhost."""
    return [_host(each) for each in text.split(",")] if text else [("localhost", None)]


def _host(text: str) -> tuple[str, int | None]:
    found = HOST.fullmatch(text)
    port = int(found["port"] or 0) if found else 0
    if found is None or port > 65535:
        raise AddressError(
            "the broker's URL has a host or a port that cannot be read: ports are numbers up to"
            f" 65535, and an IPv6 address is in brackets. Its form is {SHAPE}."
        )
    host = found["ipv6"] or found["name"]
    if not host:
        raise AddressError(
            "the broker's URL has a host without a name. Several hosts are written host1,host2."
        )
    return unquote(host), port or None


def _seconds(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise AddressError(f"heartbeat is {text!r} in the broker's URL. It is a number of seconds.")
    return int(text)
