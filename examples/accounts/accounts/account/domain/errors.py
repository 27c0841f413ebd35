"""The errors of the Account context."""


class EmailTakenError(Exception):
    """Raised when the email address has an account."""


class WeakPasswordError(ValueError):
    """Raised when a password is too short, too long, too simple, or cannot be typed."""
