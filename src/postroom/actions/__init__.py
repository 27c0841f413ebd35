"""What operators decide about records: which ones, what happens to them, and a preview."""

from postroom.actions.action import ACTIONS, DISCARD, REPLAY, RETRY, SKIP, Action
from postroom.actions.choosing import Chosen, choose_group, choose_matching, choose_named

__all__ = [
    "ACTIONS",
    "DISCARD",
    "REPLAY",
    "RETRY",
    "SKIP",
    "Action",
    "Chosen",
    "choose_group",
    "choose_matching",
    "choose_named",
]
