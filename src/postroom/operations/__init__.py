"""What operators change: retry, skip, discard, replay, purge, pause, drain; each is audited."""

from postroom.operations.changes import REPLAY_HEADER
from postroom.operations.operations import Operations

__all__ = ["REPLAY_HEADER", "Operations"]
