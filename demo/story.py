"""The story: what happens, in plain words, on the terminal and on the page."""

import time
from collections import deque
from dataclasses import dataclass
from datetime import datetime

KEPT = 30


@dataclass(frozen=True, slots=True)
class Line:
    """Something that happened."""

    at: str
    text: str


class Story:
    """Tells each thing that happens once: prints it, and keeps it for the page."""

    def __init__(self) -> None:
        self.lines: deque[Line] = deque(maxlen=KEPT)
        """The newest first."""
        self._told_at = time.monotonic()

    def tell(self, text: str) -> None:
        """Tell of something that happened."""
        line = Line(f"{datetime.now().astimezone():%H:%M:%S}", text)
        self.lines.appendleft(line)
        self.say(f"{line.at}  {text}")

    def say(self, text: str) -> None:
        """Print a line that is for the terminal only."""
        self._told_at = time.monotonic()
        print(text, flush=True)

    def silent_for(self, seconds: float) -> bool:
        """Return whether nothing was printed for so long."""
        return time.monotonic() - self._told_at >= seconds


class Names:
    """Short names instead of ids: message 1, message 2, in the order of their first record."""

    def __init__(self) -> None:
        self._numbers: dict[str, dict[str, int]] = {}  # by kind and id

    def number(self, kind: str, id_: str) -> int:
        """Return the number of an aggregate; the next one if it is new."""
        numbers = self._numbers.setdefault(kind, {})
        return numbers.setdefault(id_, len(numbers) + 1)

    def name(self, kind: str, id_: str) -> str:
        """Return the name of an aggregate, such as `message 12`."""
        word = "message" if kind == "group_message" else kind.replace("_", " ")
        return f"{word} {self.number(kind, id_)}"
