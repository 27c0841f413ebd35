"""Asks before a change, and shows the progress."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from postroom.cli.errors import CommandError

CHANGE: Final = "Change"


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """Whether to ask before the change, and whether to make it."""

    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask.", rich_help_panel=CHANGE)
    ] = False
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what would be changed.", rich_help_panel=CHANGE),
    ] = False
    given: frozenset[str] = frozenset()

    def asked(self, question: str) -> bool:
        """Return whether to make the change; ask, unless the options say so.

        Raises CommandError if nobody can be asked.
        """
        if self.dry_run or self.yes:
            return not self.dry_run
        if not sys.stdin.isatty():
            raise CommandError(
                "nothing was changed: standard input is no terminal, so nobody can be asked."
                " Give --yes, or --dry-run to see what would be changed."
            )
        return typer.confirm(question, err=True)


@contextmanager
def progress_bar(text: str, total: int, *, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """Show on a terminal how many of `total` records are done: call what is given with that."""
    if not shown or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(text, total=total)
        yield lambda done: progress.update(task, completed=done, total=max(total, done))
