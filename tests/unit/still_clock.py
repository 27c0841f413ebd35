"""A clock that stands still until it is moved."""


class StillClock:
    """Is called for the time, in seconds."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
