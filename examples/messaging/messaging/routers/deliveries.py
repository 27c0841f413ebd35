"""List of deliveries: one for each recipient of a message."""

from uuid import UUID

from fastapi import APIRouter

from messaging.controllers.crud import CRUDController, Listed
from messaging.dependencies import Database, Part
from messaging.models import Delivery
from messaging.schemas import DeliveryOut, Page
from messaging.user import CurrentUser

router = APIRouter(tags=["deliveries"])


@router.get("/deliveries", response_model=Page[DeliveryOut])
async def list_deliveries(
    db: Database, user: CurrentUser, part: Part, message_id: UUID | None = None
) -> Listed[Delivery]:
    where = [] if message_id is None else [Delivery.message_id == message_id]
    controller = CRUDController(Delivery, db, user)
    return await controller.list(*where, limit=part.limit, offset=part.offset)
