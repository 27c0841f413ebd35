"""POST, PATCH, GET and list of group messages."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends

from messaging.controllers.crud import Listed
from messaging.controllers.group_message import GroupMessageController
from messaging.dependencies import Bus, Database, Part, Transaction
from messaging.models import GroupMessage
from messaging.schemas import GroupMessageChange, GroupMessageOut, NewGroupMessage, Page
from messaging.status import GroupMessageStatus
from messaging.user import CurrentUser

router = APIRouter(prefix="/group-messages", tags=["group messages"])


async def get_controller(db: Database, user: CurrentUser, bus: Bus) -> GroupMessageController:
    return GroupMessageController(db, user, bus)


Controller = Annotated[GroupMessageController, Depends(get_controller)]


@router.post("", status_code=201, response_model=GroupMessageOut)
async def create(
    data: NewGroupMessage, controller: Controller, transaction: Transaction
) -> GroupMessage:
    message = await controller.create(data)
    await transaction.commit()
    return message


@router.patch("/{message_id}", response_model=GroupMessageOut)
async def update(
    message_id: UUID, data: GroupMessageChange, controller: Controller, transaction: Transaction
) -> GroupMessage:
    message = await controller.update(message_id, data)
    await transaction.commit()
    return message


@router.get("/{message_id}", response_model=GroupMessageOut)
async def get(message_id: UUID, controller: Controller) -> GroupMessage:
    return await controller.get(message_id)


@router.get("", response_model=Page[GroupMessageOut])
async def list_(
    controller: Controller, part: Part, status: GroupMessageStatus | None = None
) -> Listed[GroupMessage]:
    where = [] if status is None else [GroupMessage.status == status]
    return await controller.list(*where, limit=part.limit, offset=part.offset)
