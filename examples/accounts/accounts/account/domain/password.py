"""The rules for passwords."""

from dataclasses import dataclass, field

from accounts.account.domain.errors import WeakPasswordError

MIN_LENGTH = 12
MAX_LENGTH = 128
MIN_DISTINCT = 5


@dataclass(frozen=True, slots=True)
class Password:
    """A password that is not weak. Its text is left out of `repr`."""

    text: str = field(repr=False)

    def __post_init__(self) -> None:
        if not MIN_LENGTH <= len(self.text) <= MAX_LENGTH:
            raise WeakPasswordError(f"a password has {MIN_LENGTH} to {MAX_LENGTH} characters")
        if not self.text.isprintable():
            raise WeakPasswordError("a password has only characters that can be typed")
        if len(set(self.text)) < MIN_DISTINCT:
            raise WeakPasswordError(f"a password has at least {MIN_DISTINCT} different characters")
