"""Pydantic models as events."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from postroom.events.event import now
from postroom.events.options import EventOptions
from postroom.identity import uuid7

__all__ = ["PydanticEvent"]


class PydanticEvent(BaseModel):
    """Base class of events that are pydantic models. Takes the class keywords of `DomainEvent`."""

    model_config = ConfigDict(frozen=True)

    event_id: UUID = Field(default_factory=uuid7)
    occurred_at: datetime = Field(default_factory=now)

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__()
        EventOptions.declare(cls, keywords)
