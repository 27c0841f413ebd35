"""Which records a command changes, from its arguments and options."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from postroom.cli.errors import CommandError, Exit
from postroom.cli.selection import Selection

if TYPE_CHECKING:
    from postroom.actions import Action, Chosen
    from postroom.inspection import Inspector


async def choose(
    inspector: "Inspector",
    action: "Action",
    names: Sequence[str],
    selection: Selection,
    group: str | None,
) -> "Chosen":
    """Choose the records that are named, or that the filter or the group has."""
    from postroom.actions import choose_group, choose_matching
    from postroom.errors import ActionError

    if bool(names) + bool(selection.given) + (group is not None) != 1:
        raise CommandError(
            f"which records? Name them (postroom {action.verb} 1234), or give a filter (--type,"
            " --key, --error, --older-than, …)"
            f"{', or --group' if 'failed' in action.changes else ''}: one of these."
        )
    if names:
        return await _named(inspector, action, names)
    try:
        if group is not None:
            return await choose_group(inspector, action, group)
        return await choose_matching(inspector, action, selection.filter())
    except ActionError as error:
        if error.state is None:
            raise CommandError(f"{error} See: postroom failures", Exit.PROBLEM) from error
        raise CommandError(f"--{error}") from error


async def _named(inspector: "Inspector", action: "Action", names: Sequence[str]) -> "Chosen":
    from postroom.actions import choose_named
    from postroom.errors import ActionError

    try:
        return await choose_named(inspector, action, names)
    except ActionError as error:
        is_published = error.state == "published" and len(names) == 1
        again = f" To deliver it again: postroom replay {names[0]}" if is_published else ""
        raise CommandError(f"{error}{again}", Exit.PROBLEM) from error
