"""The README and the docs, taken apart: snippets, and commands with what they print."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TYPED_ALONG = [ROOT / "README.md", ROOT / "docs/tutorial/first-event.md"]
"""Pages that name files and commands; `typed_along.py` follows them."""
SNIPPET = re.compile(r"^( *)```python\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
PROMPT = re.compile(r"^\$ ", re.MULTILINE)
CONTINUED = re.compile(r"\s*\\\n\s*")
SHELL = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"(?<!`)`postroom ([^`…]+?) ?…?`(?!`)")
LINE = re.compile(r"(?:^|\s)postroom ([a-z-].*)$", re.MULTILINE)
"""A command, after the variables that are set for it."""
NOTE = re.compile(r"\s+# .*$")


@dataclass(frozen=True, slots=True)
class Command:
    """What somebody types, and what is said to come of it; nothing if the page does not say."""

    words: str
    printed: str

    @property
    def stays(self) -> bool:
        """Whether it runs until it is told to stop."""
        is_worker = self.words.startswith("postroom worker") and "--once" not in self.words
        return is_worker or self.words.startswith("postroom console")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def snippets(page: Path) -> list[str]:
    return [match[2] for match in SNIPPET.finditer(page.read_text())]


def commands(page: Path) -> list[Command]:
    """Give what a page tells to type, as far as it is ours."""
    blocks = "".join(match[1] for match in CONSOLE.finditer(page.read_text()))
    typed = [CONTINUED.sub(" ", each).partition("\n") for each in PROMPT.split(blocks)]
    return [
        Command(NOTE.sub("", words), printed)
        for words, _, printed in typed
        if words.startswith(("postroom ", "python shop.py"))
    ]


def named_commands(page: Path) -> list[str]:
    """Give the arguments of the `postroom` commands in a page's sentences and blocks of shell."""
    text = page.read_text()
    blocks = [CONTINUED.sub(" ", block) for block in SHELL.findall(text)]
    return [line for block in blocks for line in LINE.findall(block)] + INLINE.findall(text)
