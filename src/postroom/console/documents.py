"""Payloads and JSON Schemas as HTML: indented, coloured, with what was searched for marked."""

import json
import re
from typing import Any, Final

from markupsafe import Markup, escape

MAX_CHARACTERS: Final = 200_000
"""How much of a document is shown."""
ENCODER: Final = json.JSONEncoder(indent=2, ensure_ascii=False)
# `*+` gives nothing back, or else a string without an end takes the square of its length. A string
# has none where the document was cut.
TOKEN: Final = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*+(?:"|\\?\Z)) (?P<key>(?=:))? | (?P<word>true|false|null)
    | (?P<number>-?\d[\d.eE+-]*)""",
    re.VERBOSE,
)
# Stand for tags until the text is escaped, all of it at once. No printable text has them.
BEGIN: Final = {"key": "\1", "text": "\2", "word": "\3", "number": "\4"}
END, MARK, END_OF_MARK = "\5", "\6", "\7"
TAGS: Final = {
    **{ord(code): f'<span class="json-{kind}">' for kind, code in BEGIN.items()},
    ord(END): "</span>",
    ord(MARK): "<mark>",
    ord(END_OF_MARK): "</mark>",
}


def document(value: Any, search: str = "") -> Markup:
    """Write a document of JSON as HTML. Nothing in it is markup, whatever it holds."""
    return Markup(str(escape(_tokens(value, search))).translate(TAGS))  # noqa: S704


def printable(text: str) -> str:
    """Write characters that cannot be seen, or that turn the text around, as their codes."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\n" else _code(each) for each in text)


def _tokens(value: Any, search: str) -> str:
    """Write a document with the codes of TAGS in it, not escaped yet."""
    text = _beginning(value)
    cut = "\n…" if len(text) > MAX_CHARACTERS else ""
    text = TOKEN.sub(_token, printable(text[:MAX_CHARACTERS])) + cut
    if not search:
        return text
    searched = re.compile(re.escape(printable(search)), re.IGNORECASE)
    return searched.sub(rf"{MARK}\g<0>{END_OF_MARK}", text)


def _beginning(value: Any) -> str:
    """Write as much of a document as is shown, and a little more."""
    pieces, length = [], 0
    for piece in ENCODER.iterencode(value):
        pieces.append(piece)
        length += len(piece)
        if length > MAX_CHARACTERS:
            break
    return "".join(pieces)


def _token(found: re.Match[str]) -> str:
    return f"{BEGIN[found.lastgroup or '']}{found[0]}{END}"


def _code(character: str) -> str:
    return " " if character == "\t" else ascii(character)[1:-1]
