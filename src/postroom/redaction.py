"""Which payload fields are never shown, and how secrets are removed from texts.

Pure: no I/O. docs/how-to/secrets.md says what is hidden and what cannot be.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, quote_plus

REDACTED: Final = "[redacted]"
ALWAYS: Final = (
    *("*password*", "*passwd*", "pwd", "*passphrase*", "pin"),
    *("*secret*", "*token", "*api_key*", "*private_key*", "*credential*"),
    *("authorization", "proxy_authorization", "*cookie"),
    *("*credit_card*", "*card_number*", "cvv", "cvv2", "cvc", "cvc2", "iban", "ssn"),
)
"""Patterns of field names that are hidden in every outbox."""

SHORTEST: Final = 4
"""Characters of the shortest value that is looked for in a text: a shorter one is in every text."""
MANY_DIGITS: Final = 8
"""From so many digits on, a number is found in groups too: 4111 1111 1111 1111."""
LONGEST: Final = 500
"""Characters of the longest value that is found in upper and in lower case."""
LEVELS: Final = 100
"""Levels of a document that are looked into. Deeper ones are hidden."""
NO_SECRETS: Final = frozenset({"true", "false", "null", "none"})

STYLE: Final = str.maketrans("", "", "_- ")
SEPARATORS: Final = str.maketrans("", "", " .-+()/")
URL_LOGIN: Final = re.compile(r"(?<=://)([^\s:/@'\"]*:)([^\s'\"<>]*)")
NAMES: Final = r"password|passwd|passphrase|secret|token|api[_-]?key|authorization|private[_-]?key"
NAME_PARTS: Final = ("pass", "secret", "token", "key", "authorization", "pwd")
"""One of these is in each of NAMES, and in `pwd`."""
NAMED_PASSWORD: Final = re.compile(
    rf"""(?isx) ( (?: (?:{NAMES}|\bpwd)[\w-]{{0,30}} \s? =        # password=…, a DSN or a repr
                  | (?:{NAMES}|\bpwd)[\w-]{{0,30}} ["'] \s? :    # "password": …, as in JSON
                  | (?:password|passwd|authorization) \s? :      # Authorization: …
                  ) \s? (?:(?:Bearer|Basic)\s)? )
        (?: "(?:[^"\\]|\\.)*"? | '(?:[^'\\]|\\.)*'? | [^\s,;&()\[\]{{}}'"]+ )"""
)


def redacted(document: Any, patterns: Iterable[str] = ()) -> Any:
    """Return a copy of a payload, or of headers, in which hidden fields are "[redacted]".

    A pattern is a field's name at any depth (`email`), or the end of a path (`card.number`); `*`
    stands for any part of one name. Case, `_` and `-` make no difference: `apiKey` is `api_key`.
    Lists are looked into. The fields of ALWAYS are hidden too.
    """
    return _redacted(document, "", _hidden(tuple(patterns)), LEVELS)


def is_pattern(pattern: object) -> bool:
    """Return whether `redacted` can use a pattern: names between dots, without [ ] and $."""
    if not isinstance(pattern, str) or not set("[]$").isdisjoint(pattern):
        return False
    return all(_name(part) for part in pattern.split("."))


def secret_values(document: Any, patterns: Iterable[str] = ()) -> frozenset[str]:
    """Return the values of a document's hidden fields that `mask` can find in a text.

    Not the short ones (3 characters and fewer), nor true, false and null: these are in every text.
    """
    found = _secrets(document, "", _hidden(tuple(patterns)), LEVELS)
    return frozenset(part for value in found for part in _findable(value))


def mask(text: str, values: Collection[str] = ()) -> str:
    """Return a text without passwords (in a URL, after `password=`), and without these values."""
    text = _without_passwords(text)
    forms = {form for value in values for form in _forms(value)}
    for long in (form for form in forms if len(form) > LONGEST):
        text = text.replace(long, REDACTED)
    found = {form for form in forms if len(form) <= LONGEST and _occurs(form, text)}
    if not found:
        return text
    pattern = _search_for(frozenset(found))
    masked = pattern.sub(REDACTED, text)
    return REDACTED if pattern.search(masked) else masked


def _without_passwords(text: str) -> str:
    """Hide passwords by what stands before them. Most texts have no such word: a quick look."""
    if "://" in text:
        text = URL_LOGIN.sub(_masked_login, text)
    known = text.casefold()
    if any(word in known for word in NAME_PARTS):
        text = NAMED_PASSWORD.sub(r"\1***", text)
    return text


def _masked_login(found: re.Match[str]) -> str:
    """Hide the password of `user:password@host…`, as far as the last @: it may have one itself."""
    user, rest = found.groups()
    return f"{user}***{rest[rest.rindex('@') :]}" if "@" in rest else f"{user}{rest}"


@lru_cache(maxsize=64)
def _hidden(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """Compile patterns to one expression for paths such as `order.card.number`."""
    names = (re.escape(_name(each)).replace(r"\*", "[^.]*") for each in (*ALWAYS, *patterns))
    return re.compile(rf"(?:^|\.)(?:{'|'.join(names)})(?:\.|$)")


def _name(field: object) -> str:
    return str(field).translate(STYLE).casefold()


def _redacted(value: Any, path: str, hidden: re.Pattern[str], levels: int) -> Any:
    if not levels:
        return REDACTED
    if isinstance(value, Mapping):
        return {
            name: REDACTED
            if hidden.search(inner := path + _name(name))
            else _redacted(part, f"{inner}.", hidden, levels - 1)
            for name, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [_redacted(part, path, hidden, levels - 1) for part in value]
    return REDACTED if value is not None and hidden.search(path) else value


def _secrets(value: Any, path: str, hidden: re.Pattern[str], levels: int) -> Iterator[Any]:
    """Yield the values that `_redacted` replaces; of an object or a list, all that are in it."""
    if not levels:
        yield from _leaves(value)
    elif isinstance(value, Mapping):
        for name, part in value.items():
            if hidden.search(inner := path + _name(name)):
                yield from _leaves(part)
            else:
                yield from _secrets(part, f"{inner}.", hidden, levels - 1)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _secrets(part, path, hidden, levels - 1)
    elif hidden.search(path):
        yield value


def _leaves(value: Any) -> Iterator[Any]:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            waiting += part.values()
        elif isinstance(part, list | tuple):
            waiting += part
        else:
            yield part


def _findable(value: Any) -> Iterator[str]:
    """Yield the texts by which a value can be found: itself, and each line if it has several."""
    if value is None or isinstance(value, bool):
        return
    text = str(value).strip()
    for part in {text, *map(str.strip, text.splitlines())}:
        known = part.casefold() in NO_SECRETS or part.casefold() in REDACTED
        if len(part) >= SHORTEST and not known:
            yield part


def _forms(value: str) -> set[str]:
    """Return how a value may be written in a text: as it is, in a repr, in JSON, in a URL."""
    in_json = json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]
    forms = {value, repr(value)[1:-1], *in_json}
    if len(value) <= LONGEST:
        forms |= {quote(value, safe=""), quote_plus(value)}
        digits = value.translate(SEPARATORS)
        if digits.isdecimal() and len(digits) >= MANY_DIGITS:
            forms.add(digits)
    return forms


def _occurs(form: str, text: str) -> bool:
    in_groups = form.isdecimal() and form in text.translate(SEPARATORS)
    return in_groups or form.casefold() in text.casefold()


@lru_cache(maxsize=64)  # the texts of one refusal: its reason, and the errors of its traceback
def _search_for(forms: frozenset[str]) -> re.Pattern[str]:
    """Compile one expression that finds each of the forms, the longest first."""
    longest_first = sorted(forms, key=lambda form: (-len(form), form))
    return re.compile("|".join(map(_expression, longest_first)), re.IGNORECASE)


def _expression(form: str) -> str:
    if not form.isdecimal():
        return re.escape(form)
    if len(form) < MANY_DIGITS:
        return rf"(?<!\d){form}(?!\d)"  # not within another number
    return r"[ .+()/-]?".join(form)
