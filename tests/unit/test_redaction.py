"""Redaction: hidden fields of a payload, and texts without secrets."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import MetaData

from postroom import ConfigurationError, Outbox
from postroom.redaction import REDACTED, mask, redacted, secret_values

CANARY = "canary-7d1f"
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


@pytest.mark.requirement("E10")
@pytest.mark.parametrize(
    ("pattern", "payload"),
    [
        ("email", {"email": CANARY}),
        ("email", {"customer": {"email": CANARY}}),
        ("email", {"customers": [{"name": "Ann", "email": CANARY}]}),
        ("email", {"E-Mail": CANARY}),
        ("email", {"email": {"work": CANARY, "others": [CANARY]}}),
        ("email", {"customer.email": CANARY}),
        ("bank_account", {"bankAccount": CANARY}),
        ("BankAccount", {"bank_account": CANARY}),
        ("card.number", {"order": {"card": {"number": CANARY}}}),
        ("card.number", {"card": [{"number": CANARY}]}),
        ("card.*", {"card": {"anything": CANARY}}),
        ("card.*", {"card": [CANARY]}),
        ("card.*", {"card": CANARY}),
        ("*mail*", {"billing_email_address": CANARY}),
        ("*", {"anything": CANARY}),
        ("*", CANARY),
    ],
)
def test_a_named_field_is_hidden(pattern: str, payload: Any) -> None:
    assert CANARY in json.dumps(redacted(payload))
    assert CANARY not in json.dumps(redacted(payload, (pattern,)))
    assert CANARY in secret_values(payload, (pattern,))


@pytest.mark.parametrize(
    ("pattern", "payload"),
    [
        ("email", {"emails_sent": 3}),
        ("card.number", {"number": 7, "card": {"holder": "Ann"}}),
        ("number.card", {"card": {"number": 7}}),
        ("card.*", {"cards": 3, "discard": {"all": True}}),
        ("a*b", {"a": {"b": 1}}),
        ("(", {"a": 1}),
    ],
)
def test_other_fields_are_shown(pattern: str, payload: Any) -> None:
    assert redacted(payload, (pattern,)) == payload
    assert secret_values(payload, (pattern,)) == frozenset()


@pytest.mark.requirement("E10")
@pytest.mark.parametrize(
    "name",
    [
        *("password", "passwd", "pwd", "userPassword", "password_hash", "PASSPHRASE"),
        *("secret", "client_secret", "token", "accessToken", "refresh-token", "apiKey", "API_KEY"),
        *("private_key", "Authorization", "Set-Cookie", "cookie", "credentials"),
        *("credit_card", "creditCardNumber", "card_number", "cvv", "cvc", "iban", "ssn", "pin"),
    ],
)
def test_some_fields_are_always_hidden(name: str) -> None:
    assert redacted({"user": {name: CANARY}}) == {"user": {name: REDACTED}}


@pytest.mark.parametrize("name", ["tokens_used", "opinion", "pinned", "compass", "author", "path"])
def test_a_name_that_only_resembles_a_secret_is_shown(name: str) -> None:
    assert redacted({name: CANARY}) == {name: CANARY}


@given(DOCUMENTS)
def test_redaction_keeps_the_form_of_a_document(document: Any) -> None:
    shown = redacted({"inner": document}, ("password",))
    assert redacted(shown) == shown
    assert json.dumps(redacted({"password": document})) == json.dumps({"password": REDACTED})


def test_what_is_nested_too_deeply_is_hidden() -> None:
    document: Any = CANARY
    for _ in range(5000):
        document = {"inner": [document]}
    assert CANARY not in json.dumps(redacted(document))
    assert secret_values(document) == {CANARY}


# -- texts


@given(st.text(min_size=4), st.text(), st.text())
def test_a_hidden_value_is_nowhere_in_a_masked_text(value: str, before: str, after: str) -> None:
    values = secret_values({"email": value}, ("email",))
    for text in (value, repr(value), json.dumps(value), f"{before} {value} {after}"):
        masked = mask(text, values)
        assert not any(each in masked for each in values)


@given(st.text(), st.sets(st.text(min_size=1)))
def test_a_text_without_the_values_stays_as_it_is(text: str, values: set[str]) -> None:
    plain = text.replace(":", "").replace("=", "")
    others = {f"{each}-{CANARY}" for each in values}
    assert mask(plain, others) == plain


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("ann@example.com", "no mailbox ANN@example.com"),
        ("ann@example.com", f"GET /users?mail={quote('ann@example.com')} failed"),
        ("4111111111111111", "card 4111 1111 1111 1111 declined"),
        ("4111-1111-1111-1111", "card 4111111111111111 declined"),
        (4111111111111111, "card 4111111111111111 declined"),
        ("Zoë O'Hara", repr(ValueError("Zoë O'Hara"))),
        ("Zoë O'Hara", json.dumps({"name": "Zoë O'Hara"})),
        ("first line\nsecond line", "it begins with first line"),
        ("x" * 100_000, f"cannot read {'x' * 100_000}"),
    ],
)
def test_a_value_is_found_as_it_may_be_written(value: object, text: str) -> None:
    masked = mask(text, secret_values({"secret": value}))
    assert REDACTED in masked
    assert str(value)[:10].lower() not in masked.lower()


@pytest.mark.parametrize("value", ["abc", "", "    ", True, False, None, "true", "null", 123, 4.5])
def test_a_value_that_any_text_may_hold_is_not_looked_for(value: object) -> None:
    assert secret_values({"secret": value}) == frozenset()


def test_a_short_number_is_not_looked_for_within_others() -> None:
    assert mask("order 120311 expires 2031", {"2031"}) == f"order 120311 expires {REDACTED}"


@pytest.mark.requirement("E10")
@pytest.mark.parametrize(
    "text",
    [
        f"cannot connect to postgresql+asyncpg://app:{CANARY}@db:5432/shop",
        f"cannot connect to amqp://app:p@ss/{CANARY}@mq1,mq2/shop?heartbeat=5",
        f"redis://:{CANARY}@cache",
        f"['amqp://a:{CANARY}@mq', 'amqp://b:{CANARY}@mq']",
        f"invalid dsn: host=db password={CANARY} user=app",
        f"invalid dsn: password='{CANARY} {CANARY}' user=app",
        f"Settings(user='app', password='{CANARY}')",
        f"Settings(api_key='it\\'s {CANARY}')",
        f'{{"password": "{CANARY}", "user": "app"}}',
        f"{{'client_secret': '{CANARY}'}}",
        f"POST /login?user=app&password={CANARY}&x=1",
        f"POST /login?access_token={CANARY}",
        f"PGPASSWORD={CANARY} is set",
        f"Authorization: Bearer {CANARY}",
        f"wrong password: {CANARY}",
        f"cut off: password='{CANARY}",
    ],
)
def test_passwords_are_masked_in_any_text(text: str) -> None:
    masked = mask(text)
    assert CANARY not in masked
    assert "***" in masked
    assert mask(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        'password authentication failed for user "app"',
        "RabbitMQ refused the login of `guest` at mq:5672/shop. Check the user and the password.",
        "see https://example.com:8080/docs",
        "unexpected token: }",
        "cannot connect to amqp://guest@mq/shop",
    ],
)
def test_a_text_without_a_password_stays_as_it_is(text: str) -> None:
    assert mask(text) == text


@pytest.mark.parametrize("part", ["a", "://a:", "password='", "password", "4111 ", "://:@"])
def test_a_text_of_a_megabyte_is_masked(part: str) -> None:
    text = part * (1_000_000 // len(part))
    assert mask(f"{text} {CANARY}", {CANARY, "4111411141114"}).find(CANARY) == -1


# -- settings


def test_an_outbox_keeps_its_patterns() -> None:
    assert Outbox(MetaData(), redact=["email", "card.*"]).redact == ("email", "card.*")
    assert Outbox(MetaData()).redact == ()


@pytest.mark.parametrize("redact", ["email", [""], ["card..x"], ["cards[0]"], ["$.a"], [3], 7])
def test_an_outbox_refuses_patterns_that_match_nothing(redact: Any) -> None:
    with pytest.raises(ConfigurationError, match="redact"):
        Outbox(MetaData(), redact=redact)
