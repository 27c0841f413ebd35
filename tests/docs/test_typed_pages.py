"""README.md and the tutorial work as printed, top to bottom, in an empty folder, twice."""

import sys
from pathlib import Path

import pytest

from tests.docs.pages import TYPED_ALONG, name
from tests.docs.typed_along import Reader, matches


@pytest.mark.parametrize("page", TYPED_ALONG, ids=name)
def test_a_page_works_as_printed(page: Path, tmp_path: Path, rabbitmq_url: str) -> None:
    with Reader.of_broker(rabbitmq_url, tmp_path, Path(sys.executable).parent) as one:
        assert one.follow(page) > 2


def test_what_a_page_shows_is_compared() -> None:
    assert matches("a 1.5 s\nb\nc\n", "a  2 s\n…\nc\n")
    assert matches("a\nc\n", "a\n…\nc\n")
    assert not matches("a\nb\n", "a\n")
    assert not matches("a\nb\n", "a\nc\n")
