"""Addresses within the console, wherever it is mounted, and never of another site."""

import pytest

from postroom.console.rendering import MAX_PATH, inner_path, path_of, url
from tests.unit.console.requests import request


@pytest.mark.parametrize("path", ["/", "/records?type=a//b", "/%2f%2fevil", "/ü", "/" + "a" * 999])
def test_a_path_of_the_console_is_kept(path: str) -> None:
    assert inner_path(path, "/workers") == path


@pytest.mark.parametrize(
    "path",
    [
        *(
            None,
            "",
            "records",
            "//evil",
            "/\\evil",
            "\\\\evil",
            "http://evil",
            "javascript:alert(1)",
        ),
        *(" //evil", "/\t/evil", "/a\r\nb: c", "/\u202e", "/\u2028", "/" + "a" * MAX_PATH),
    ],
    ids=lambda path: repr(path)[:20],
)
def test_what_may_lead_to_another_site_is_replaced(path: str | None) -> None:
    assert inner_path(path, "/workers") == "/workers"


@pytest.mark.parametrize(
    ("path", "root_path", "inner"),
    [
        ("/records", "", "/records"),
        ("/ops/records", "/ops", "/records"),
        ("/ops", "/ops", "/"),
        ("/records/a?b", "", "/records/a?b"),
    ],
)
def test_the_path_of_a_request_does_not_depend_on_its_host(
    path: str, root_path: str, inner: str
) -> None:
    for host in ("own", "[", "a/b?c#d", ""):
        assert path_of(request(path=path, root_path=root_path, host=host)) == inner


def test_an_address_has_the_path_that_the_console_is_mounted_at() -> None:
    asked = request(root_path="/ops")
    assert url(asked, "/records", type="a&b", after=None) == "/ops/records?type=a%26b"
    assert url(asked, "/records?state=failed", after=7) == "/ops/records?state=failed&after=7"
