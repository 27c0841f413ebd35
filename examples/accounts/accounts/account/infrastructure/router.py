"""Accounts over HTTP."""

from typing import Annotated, Self
from uuid import UUID

from dishka.integrations.fastapi import DishkaRoute, FromDishka
from fastapi import APIRouter, HTTPException, status
from pydantic import AfterValidator, BaseModel, EmailStr, Field, SecretStr

from accounts.account.application.ports import AccountRepository
from accounts.account.application.sign_up import SignUp, SignUpHandler
from accounts.account.domain.account import Account
from accounts.account.domain.errors import EmailTakenError
from accounts.account.domain.password import MAX_LENGTH, MIN_LENGTH, Password
from accounts.account.domain.role import AccountRole
from accounts.shared.infrastructure.problems import Problem

router = APIRouter(route_class=DishkaRoute)


def check_strength(secret: SecretStr) -> SecretStr:
    Password(secret.get_secret_value())  # its ValueError becomes an error of this field
    return secret


class SignUpRequest(BaseModel):
    """The body of a sign-up."""

    email: EmailStr
    password: Annotated[
        SecretStr,
        Field(json_schema_extra={"minLength": MIN_LENGTH, "maxLength": MAX_LENGTH}),
        AfterValidator(check_strength),
    ]

    def command(self) -> SignUp:
        return SignUp(email=self.email, password=Password(self.password.get_secret_value()))


class AccountView(BaseModel):
    """The public fields of an account."""

    account_id: UUID
    email: str
    role: AccountRole

    @classmethod
    def of(cls, account: Account) -> Self:
        return cls(account_id=account.account_id, email=account.email, role=account.role)


@router.post(
    "/sign-up",
    status_code=status.HTTP_201_CREATED,
    responses={400: {"model": Problem}, 409: {"model": Problem}},
)
async def sign_up(request: SignUpRequest, handler: FromDishka[SignUpHandler]) -> AccountView:
    try:
        account = await handler.handle(request.command())
    except EmailTakenError as error:
        detail = f"There is an account for {error} already."
        raise HTTPException(status.HTTP_409_CONFLICT, detail) from error
    return AccountView.of(account)


@router.get("/accounts/{account_id}", responses={404: {"model": Problem}})
async def read_account(account_id: UUID, accounts: FromDishka[AccountRepository]) -> AccountView:
    account = await accounts.get(account_id)
    if account is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"There is no account {account_id}.")
    return AccountView.of(account)
