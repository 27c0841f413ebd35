"""Documents: JSON as HTML in which nothing is markup, however large and odd it is."""

import json
import re
from html import unescape
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.console.documents import MAX_CHARACTERS, document, printable

TAG = re.compile(r'</?mark>|<span class="json-(?:key|text|word|number)">|</span>')
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def matches(value: Any, search: str) -> int:
    """Count the places that are marked."""
    return document(value, search).count("<mark>")


def text_of(html: str) -> str:
    """Return what is left without the tags that the console adds."""
    return unescape(TAG.sub("", html))


def test_a_document_is_indented_and_coloured() -> None:
    html = document({"a": [1.5e3, "x", None, True]})
    assert html == (
        '{\n  <span class="json-key">&#34;a&#34;</span>: [\n'
        '    <span class="json-number">1500.0</span>,\n'
        '    <span class="json-text">&#34;x&#34;</span>,\n'
        '    <span class="json-word">null</span>,\n'
        '    <span class="json-word">true</span>\n  ]\n}'
    )


@given(VALUES, st.text(max_size=3))
def test_the_text_of_a_document_is_its_json_and_no_tag_is_anybody_elses(
    value: Any, search: str
) -> None:
    html = str(document(value, search))
    assert text_of(html) == printable(json.dumps(value, indent=2, ensure_ascii=False))
    assert "<" not in TAG.sub("", html)
    assert html.count("<span") == html.count("</span>")
    assert html.count("<mark>") == html.count("</mark>")


@pytest.mark.parametrize(
    "value",
    ["<script>", "</span><b>", '"><img src=x onerror=alert(1)>', "\1\2\3<i>\4\5\6\7", "&lt;"],
)
def test_markup_is_escaped_in_keys_and_in_texts(value: str) -> None:
    html = str(document({value: value}))
    assert TAG.sub("", html).count("<") == 0
    assert text_of(html).count(printable(json.dumps(value, ensure_ascii=False))) == 2


def test_what_was_searched_for_is_marked_and_counted() -> None:
    value = {"Card": "card <card>", "n": 4111}
    assert matches(value, "card") == 3
    assert "&lt;<mark>card</mark>&gt;" in document(value, "CARD")
    assert "<mark>&lt;c</mark>" in document(value, "<c")
    assert (matches(value, "41"), matches(value, "amp"), matches(value, "span")) == (1, 0, 0)
    assert (matches(value, ""), matches(value, ".*")) == (0, 0)


def test_what_cannot_be_seen_is_shown_as_its_code() -> None:
    html = document("\u202e\u200b\x1b\ud800\u00a0")
    assert text_of(html) == r'"\u202e\u200b\u001b\ud800\xa0"'
    assert matches("\u202e", "\u202e") == 1
    assert printable("a\tb\nc\x00") == "a b\nc\\x00"


LARGE = {
    "text": "x" * 300_000,
    "key": {"x" * 300_000: 1},
    "quotes": '"' * 300_000,
    "backslashes": "\\" * 300_000,
    "numbers": [0] * 100_000,
}


@pytest.mark.parametrize("name", LARGE)
def test_a_large_document_is_cut(name: str) -> None:
    """If it took the square of its size, the quotes would take half an hour."""
    text = text_of(document(LARGE[name], '"'))
    assert text.endswith("\n…")
    assert len(text) == MAX_CHARACTERS + 2


def test_a_deep_document_is_shown() -> None:
    value: Any = "<deep>"
    for _ in range(90):
        value = [value]
    assert "&lt;deep&gt;" in document(value)
