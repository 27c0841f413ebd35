"""POST and list of what messages are made of: channels, templates, groups of contacts."""

from typing import Annotated

from fastapi import APIRouter, Depends

from messaging.controllers.crud import CRUDController, Listed
from messaging.dependencies import Database, Part, Transaction
from messaging.models import Channel, ContactGroup, Template
from messaging.schemas import (
    ChannelOut,
    ContactGroupOut,
    NewChannel,
    NewContactGroup,
    NewTemplate,
    Page,
    TemplateOut,
)
from messaging.user import CurrentUser

router = APIRouter(tags=["channels, templates, contact groups"])


class Catalogue:
    """A controller for each."""

    def __init__(self, db: Database, user: CurrentUser) -> None:
        self.channels = CRUDController(Channel, db, user)
        self.templates = CRUDController(Template, db, user)
        self.contact_groups = CRUDController(ContactGroup, db, user)


Controllers = Annotated[Catalogue, Depends()]


@router.post("/channels", status_code=201, response_model=ChannelOut)
async def create_channel(
    data: NewChannel, controllers: Controllers, transaction: Transaction
) -> Channel:
    channel = await controllers.channels.insert(**data.model_dump())
    await transaction.commit()
    return channel


@router.get("/channels", response_model=Page[ChannelOut])
async def list_channels(controllers: Controllers, part: Part) -> Listed[Channel]:
    return await controllers.channels.list(limit=part.limit, offset=part.offset)


@router.post("/templates", status_code=201, response_model=TemplateOut)
async def create_template(
    data: NewTemplate, controllers: Controllers, transaction: Transaction
) -> Template:
    template = await controllers.templates.insert(**data.model_dump())
    await transaction.commit()
    return template


@router.get("/templates", response_model=Page[TemplateOut])
async def list_templates(controllers: Controllers, part: Part) -> Listed[Template]:
    return await controllers.templates.list(limit=part.limit, offset=part.offset)


@router.post("/contact-groups", status_code=201, response_model=ContactGroupOut)
async def create_contact_group(
    data: NewContactGroup, controllers: Controllers, transaction: Transaction
) -> ContactGroup:
    group = await controllers.contact_groups.insert(**data.model_dump())
    await transaction.commit()
    return group


@router.get("/contact-groups", response_model=Page[ContactGroupOut])
async def list_contact_groups(controllers: Controllers, part: Part) -> Listed[ContactGroup]:
    return await controllers.contact_groups.list(limit=part.limit, offset=part.offset)
