"""Somebody starts a family, and is its owner."""

from dataclasses import dataclass

from family.application.ports import FamilyRepository, UnitOfWork
from family.domain.family import Family
from family.domain.values import FamilyName, User


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateFamilyCommand:
    name: str
    owner: User


class CreateFamilyCommandHandler:
    def __init__(self, families: FamilyRepository, unit_of_work: UnitOfWork) -> None:
        self._families = families
        self._unit_of_work = unit_of_work

    async def handle(self, command: CreateFamilyCommand) -> Family:
        family = Family.create(FamilyName.parse(command.name), command.owner)
        await self._families.add(family)
        await self._unit_of_work.save_changes()
        return family
