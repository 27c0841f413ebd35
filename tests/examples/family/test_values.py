"""Addresses, whatever users type; other value objects are tested in the project."""

from hypothesis import given
from hypothesis import strategies as st

from family.domain.errors import InvalidEmailError
from family.domain.values import Email


@given(st.text())
def test_any_text_is_an_address_that_stays_as_it_is_or_refused(text: str) -> None:
    try:
        email = Email.parse(text)
    except InvalidEmailError:
        return
    assert Email.parse(email.value) == email
