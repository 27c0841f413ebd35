"""The URL of a broker, taken apart."""

from typing import Any

import pytest

from postroom.publishers.rabbitmq.amqp.address import Address, parse
from postroom.publishers.rabbitmq.amqp.errors import AddressError

SECRET = "s3cr3t-9"


def read(url: str) -> Address:
    """Read the URL of one host."""
    (address,) = parse(url)
    return address


def test_every_part_of_a_url_is_read() -> None:
    address = read("amqp://ann:pw@rabbit.example:5673/orders?heartbeat=7&name=shop")
    assert (address.user, address.password) == ("ann", "pw")
    assert (address.host, address.port, address.vhost) == ("rabbit.example", 5673, "orders")
    assert (address.heartbeat, address.name, address.tls) == (7, "shop", False)


def test_what_a_url_does_not_say_is_what_rabbitmq_has_by_default() -> None:
    address = read("amqp://")
    assert (address.user, address.password) == ("guest", "guest")
    assert (address.host, address.port, address.vhost) == ("localhost", 5672, "/")
    assert (address.heartbeat, address.name) == (10, "")
    assert read("amqps://h").port == 5671


@pytest.mark.parametrize(
    ("path", "vhost"),
    [
        ("", "/"),
        ("/", "/"),
        ("/%2F", "/"),
        ("/%2f", "/"),
        ("/orders", "orders"),
        ("/%2Forders", "/orders"),
        ("/a%2Fb", "a/b"),
        ("/%C3%BCber%20all", "über all"),
    ],
)
def test_the_path_is_the_vhost(path: str, vhost: str) -> None:
    assert read(f"amqp://h{path}").vhost == vhost


@pytest.mark.parametrize(
    ("hosts", "found"),
    [
        ("a,b,c", [("a", 5672), ("b", 5672), ("c", 5672)]),
        ("a:5673,b", [("a", 5673), ("b", 5672)]),
        ("a:1,b:65535", [("a", 1), ("b", 65535)]),
        ("10.0.0.1,[::1],[fe80::2]:5673", [("10.0.0.1", 5672), ("::1", 5672), ("fe80::2", 5673)]),
    ],
)
@pytest.mark.parametrize("login", ["", "ann:p%2Cw@"])
def test_a_url_may_name_several_hosts(login: str, hosts: str, found: list[tuple[str, int]]) -> None:
    addresses = parse(f"amqp://{login}{hosts}/orders?heartbeat=7")
    assert [(each.host, each.port) for each in addresses] == found
    assert {(each.vhost, each.heartbeat) for each in addresses} == {("orders", 7)}
    assert {each.password for each in addresses} == {"p,w" if login else "guest"}


def test_there_may_be_several_urls_each_with_a_login_of_its_own() -> None:
    one, two, three = parse(["amqp://ann:1@a/v", "amqps://bob:2@b,c/w"])
    assert (one.user, one.password, str(one)) == ("ann", "1", "a:5672/v")
    assert (two.user, two.password, str(two)) == ("bob", "2", "b:5671/w")
    assert str(three) == "c:5671/w"


@pytest.mark.parametrize("urls", [[], [f"amqp://ann:{SECRET}@a", None], (b"amqp://h",), None])
def test_what_is_no_url_or_list_of_urls_is_refused(urls: Any) -> None:
    with pytest.raises(AddressError) as caught:
        parse(urls)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("login", "user", "password"), [("a%40b:p%2F%3A%40%23w", "a@b", "p/:@#w"), ("ann:", "ann", "")]
)
def test_user_and_password_are_unquoted(login: str, user: str, password: str) -> None:
    address = read(f"amqp://{login}@h/")
    assert (address.user, address.password) == (user, password)


def test_an_address_of_ipv6_loses_its_brackets_and_shows_them() -> None:
    address = read("amqp://[::1]:5673/orders")
    assert (address.host, address.port) == ("::1", 5673)
    assert str(address) == "[::1]:5673/orders"


@pytest.mark.requirement("E10")
@pytest.mark.parametrize("path", ["", "/", "/orders", "/%2Forders"])
def test_as_text_it_shows_neither_user_nor_password(path: str) -> None:
    url = f"amqp://ann:{SECRET}@h{path}"
    address = read(url)
    assert address.password == SECRET
    for shown in (str(address), repr(address)):
        assert SECRET not in shown
    assert str(address).startswith("h:5672/")


@pytest.mark.parametrize("mechanism", ["external", "EXTERNAL"])
def test_a_certificate_can_be_the_login(mechanism: str) -> None:
    options = f"auth_mechanism={mechanism}&certfile=/c.pem&keyfile=/k.pem"
    assert read(f"amqps://h/v?{options}").external
    assert not read("amqps://h/v?certfile=/c.pem&auth_mechanism=plain").external
    assert not read("amqps://h/v?certfile=/c.pem").external


@pytest.mark.requirement("E10")
@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        (f"http://ann:{SECRET}@h/v", "Its form is amqp://"),
        (f"ann:{SECRET}@h/v", "Its form is amqp://"),
        (f"//ann:{SECRET}@h/v", "Its form is amqp://"),
        (f"{SECRET}", "Its form is amqp://"),
        ("", "Its form is amqp://"),
        (f"amqp://ann:{SECRET}@h:port/v", "Its form is amqp://"),
        (f"amqp://ann:{SECRET}@h:99999/v", "Its form is amqp://"),
        (f"amqp://ann:{SECRET}@[::1/v", "Its form is amqp://"),
        (f"amqp://ann:{SECRET}/x@h/v", "%2F for /"),  # a / that is not quoted
        (f"amqp://ann:{SECRET}@a,,b/v", "host1,host2"),
        (f"amqp://ann:{SECRET}@a,/v", "host1,host2"),
        (f"amqp://ann:{SECRET}@:5672/v", "host1,host2"),
        (f"amqp://ann:{SECRET}@a, b/v", "cannot be read"),
        (f"amqp://ann:{SECRET}@a;b:5672;c/v", "cannot be read"),
        (f"amqp://ann:{SECRET}@a:5672,b:{SECRET}/v", "cannot be read"),
        (f"amqp://ann:{SECRET}@a,::1/v", "in brackets"),
        (f"amqp://ann:{SECRET}@a,[::1/v", "in brackets"),
        (f"amqp://ann:{SECRET}@a,[::1]x/v", "in brackets"),
        (f"amqp://ann:{SECRET}@a,[no]/v", "in brackets"),
        (f"amqp://ann:{SECRET}@a/v,amqp://ann:{SECRET}@b/v", "a list of URLs"),
        (f" amqp://ann:{SECRET}@a/v", "Its form is amqp://"),
        (f"amqp:/ann:{SECRET}@h/v", "Its form is amqp://"),
        (f"amqp://ann:{SECRET}@h/a/b", "Write %2F"),
        (f"amqp://ann:{SECRET}@h//", "Write %2F"),
        (f"amqp://ann:{SECRET}@h/v?heartbeet=5", "heartbeat"),
        (f"amqp://ann:{SECRET}@h/v?cafile=/ca.pem", "Write amqps:// for TLS"),
        (f"amqps://ann:{SECRET}@h/v?verify=no", "verify_peer, verify_none"),
        (f"amqps://ann:{SECRET}@h/v?keyfile=/k.pem", "no certfile"),
        (f"amqps://ann:{SECRET}@h/v?auth_mechanism=md5", "plain or external"),
        (f"amqps://ann:{SECRET}@h/v?auth_mechanism=external", "needs a client certificate"),
        (f"amqp://ann:{SECRET}@h/v?auth_mechanism=external", "needs a client certificate"),
        (f"amqp://ann:{SECRET}@h/v?heartbeat=soon", "number of seconds"),
        (f"amqp://ann:{SECRET}@h/v?heartbeat=-1", "number of seconds"),
        (f"amqp://ann:{SECRET}@h/v?heartbeat=65536", "number of seconds"),
    ],
)
def test_a_url_that_cannot_work_is_refused_with_a_remedy_and_without_the_password(
    url: str, remedy: str
) -> None:
    with pytest.raises(AddressError) as caught:
        read(url)
    text = str(caught.value)
    assert remedy in text
    assert SECRET not in text
    assert "\n" not in text
    assert caught.value.__cause__ is None


@pytest.mark.requirement("E10")
@pytest.mark.parametrize("mark", ["/", "?", "#"])
@pytest.mark.parametrize("digits", ["12", "x"])
def test_a_password_whose_marks_are_not_quoted_is_never_shown(digits: str, mark: str) -> None:
    url = f"amqp://ann:{digits}{mark}{SECRET}@h"  # up to the mark it looks like a port
    with pytest.raises(AddressError) as caught:
        read(url)
    assert SECRET not in str(caught.value)
