"""Every command of the runbooks and of docs/operate/repair.md runs on an outbox in trouble."""

import shlex
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, name, named_commands
from tests.support.shop_with_failures import Shop

PAGES = [*sorted((ROOT / "docs/runbooks").glob("*.md")), ROOT / "docs/operate/repair.md"]
STAYING = ("worker", "console", "tail", "topology")
"""They stay, or need a broker. Others test them."""
CHANGING = ("retry", "skip", "discard", "pause", "resume", "replay", "purge", "drain")
GIVEN = {"ID": "2", "1234": "2", "HOST:PID": "web1:4711", "NAME": "web1:4711"}


def typed(page: Path) -> list[str]:
    """Give the commands of a page, as somebody would type them for this outbox."""
    found = []
    for line in dict.fromkeys(named_commands(page)):
        words = [GIVEN.get(word, word) for word in shlex.split(line)]
        options = [word for word in words if word.startswith("--")]
        if words[0].startswith("--") or words[0] in STAYING:
            continue
        if any(word in CHANGING for word in words) and not {"--yes", "--dry-run"} & {*options}:
            words.append("--yes")
        found.append(shlex.join(words))
    return found


CASES = [(page, words) for page in PAGES for words in typed(page)]


@pytest.mark.parametrize(("page", "words"), CASES, ids=[f"{name(p)}: {w}" for p, w in CASES])
def test_a_command_does_what_its_page_says(shop: Shop, page: Path, words: str) -> None:
    done = shop(*shlex.split(words))
    if "web1:4711" in words:
        assert "web1:4711" in done.err, done.err
        return
    assert done.code in (0, 1), done.err  # 1: a problem was found
    assert done.err == ""
