"""POST, PATCH, GET and list of scheduled messages."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends

from messaging.controllers.crud import Listed
from messaging.controllers.scheduled_message import ScheduledMessageController
from messaging.dependencies import Bus, Database, Part, Transaction
from messaging.models import ScheduledMessage
from messaging.schemas import (
    NewScheduledMessage,
    Page,
    ScheduledMessageChange,
    ScheduledMessageOut,
)
from messaging.status import ScheduledMessageStatus
from messaging.user import CurrentUser

router = APIRouter(prefix="/scheduled-messages", tags=["scheduled messages"])


async def get_controller(db: Database, user: CurrentUser, bus: Bus) -> ScheduledMessageController:
    return ScheduledMessageController(db, user, bus)


Controller = Annotated[ScheduledMessageController, Depends(get_controller)]


@router.post("", status_code=201, response_model=ScheduledMessageOut)
async def create(
    data: NewScheduledMessage, controller: Controller, transaction: Transaction
) -> ScheduledMessage:
    message = await controller.create(data)
    await transaction.commit()
    return message


@router.patch("/{message_id}", response_model=ScheduledMessageOut)
async def update(
    message_id: UUID, data: ScheduledMessageChange, controller: Controller, transaction: Transaction
) -> ScheduledMessage:
    message = await controller.update(message_id, data)
    await transaction.commit()
    return message


@router.get("/{message_id}", response_model=ScheduledMessageOut)
async def get(message_id: UUID, controller: Controller) -> ScheduledMessage:
    return await controller.get(message_id)


@router.get("", response_model=Page[ScheduledMessageOut])
async def list_(
    controller: Controller, part: Part, status: ScheduledMessageStatus | None = None
) -> Listed[ScheduledMessage]:
    where = [] if status is None else [ScheduledMessage.status == status]
    return await controller.list(*where, limit=part.limit, offset=part.offset)
