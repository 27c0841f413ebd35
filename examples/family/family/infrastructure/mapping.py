"""Maps the classes of the domain, which know nothing of it, to their tables."""

from sqlalchemy.orm import registry, relationship

from family.domain.family import Family, Member
from family.domain.invitation import FamilyMemberInvitation
from family.infrastructure.tables import (
    families,
    family_member_invitations,
    family_members,
    metadata,
)

mapper_registry = registry(metadata=metadata)
mapper_registry.map_imperatively(Member, family_members)
mapper_registry.map_imperatively(
    Family, families, properties={"members": relationship(Member, lazy="selectin")}
)
mapper_registry.map_imperatively(FamilyMemberInvitation, family_member_invitations)
