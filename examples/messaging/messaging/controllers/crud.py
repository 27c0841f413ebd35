"""Create, get, list and update, for everything that an account has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from messaging.errors import NotFoundError, UnprocessableError
from messaging.models import Owned
from messaging.user import User

Entity = TypeVar("Entity", bound=Owned)


@dataclass(frozen=True, slots=True)
class Listed(Generic[Entity]):
    """A part of a list, and the length of the whole list."""

    items: Sequence[Entity]
    total: int
    limit: int
    offset: int


class CRUDController(Generic[Entity]):
    """Works in the session of a request, on what belongs to its user's account; never commits."""

    def __init__(self, model: type[Entity], db: AsyncSession, user: User) -> None:
        self.model = model
        self.db = db
        self.user = user

    async def insert(self, **values: Any) -> Entity:
        entity = self.model(**values)
        entity.account_id = self.user.account_id
        self.db.add(entity)
        await self.db.flush()
        return entity

    async def get(self, entity_id: UUID, *, for_update: bool = False) -> Entity:
        """Return the entity with this id; `for_update` locks it until the transaction ends."""
        query = select(self.model).where(self.model.id == entity_id, self._owned)
        if for_update:
            query = query.with_for_update()
        entity = await self.db.scalar(query)
        if entity is None:
            raise NotFoundError(f"there is no {self._name} {entity_id}")
        return entity

    async def list(self, *where: ColumnElement[bool], limit: int, offset: int) -> Listed[Entity]:
        """Return a part of the list, the newest first, and its total length."""
        query = select(self.model).where(self._owned, *where)
        newest = query.order_by(self.model.created_at.desc(), self.model.id)
        items = (await self.db.scalars(newest.limit(limit).offset(offset))).all()
        total = await self.db.scalar(select(func.count()).select_from(query.subquery()))
        return Listed(items, total or 0, limit, offset)

    async def change(self, entity: Entity, changes: Mapping[str, Any]) -> Entity:
        for name, value in changes.items():
            setattr(entity, name, value)
        await self.db.flush()
        return entity

    async def named(self, field: str, *ids: UUID) -> Sequence[Entity]:
        """Return those that a field of the body names. Raises UnprocessableError."""
        query = select(self.model).where(self.model.id.in_(ids), self._owned)
        found = (await self.db.scalars(query)).all()
        missing = sorted(str(each) for each in set(ids) - {entity.id for entity in found})
        if missing:
            raise UnprocessableError(field, f"there is no {self._name} {', '.join(missing)}")
        return found

    @property
    def _owned(self) -> ColumnElement[bool]:
        return self.model.account_id == self.user.account_id

    @property
    def _name(self) -> str:
        return str(self.model.__tablename__).removesuffix("s").replace("_", " ")
