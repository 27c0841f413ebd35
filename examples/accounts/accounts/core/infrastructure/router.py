"""Profiles over HTTP."""

from typing import Self
from uuid import UUID

from dishka.integrations.fastapi import DishkaRoute, FromDishka
from fastapi import APIRouter, HTTPException, status
from pydantic import BaseModel

from accounts.core.application.ports import ProfileRepository
from accounts.core.domain.profile import Profile
from accounts.shared.infrastructure.problems import Problem

router = APIRouter(route_class=DishkaRoute)


class ProfileView(BaseModel):
    """The public fields of a profile."""

    account_id: UUID
    display_name: str

    @classmethod
    def of(cls, profile: Profile) -> Self:
        return cls(account_id=profile.account_id, display_name=profile.display_name)


@router.get("/profiles/{account_id}", responses={404: {"model": Problem}})
async def read_profile(account_id: UUID, profiles: FromDishka[ProfileRepository]) -> ProfileView:
    """Return a profile. It is created some time after the account: 404 until then."""
    profile = await profiles.get(account_id)
    if profile is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"There is no profile of {account_id}.")
    return ProfileView.of(profile)
