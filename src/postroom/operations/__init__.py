"""What operators change: retry, skip, discard, pause, resume, replay, purge; each is audited."""

from postroom.operations.changes import REPLAY_HEADER
from postroom.operations.operations import Operations

__all__ = ["REPLAY_HEADER", "Operations"]
