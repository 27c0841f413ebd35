"""What the rules of accounts forbid."""


class EmailTakenError(Exception):
    """Raised when there is an account with that email address already."""


class WeakPasswordError(ValueError):
    """Raised when a password is too easy to guess, or cannot be typed."""
