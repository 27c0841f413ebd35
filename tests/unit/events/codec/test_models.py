"""Pydantic models: what pydantic writes is kept only when it reads it back as it was."""

from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, SecretStr, computed_field

from postroom.events.codec import Unfit, codec_for
from tests.unit.events.builders import comes_back


class Pet(BaseModel):
    name: str


class Dog(Pet):
    loud: bool = True


class Account(BaseModel):
    account_id: UUID = Field(default_factory=uuid4, alias="id")
    balance: float = 0.0
    opened_at: datetime | None = None
    owner: UUID | str | None = None
    pet: Pet | None = None
    secret: SecretStr | None = None
    by_pair: dict[tuple[int, int], int] = {}
    rest: Any = None


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    strict_id: UUID
    pair: tuple[int, int]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def doubled(self) -> int:
        return self.pair[0] * 2


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    open_at: int


Numbers = RootModel[list[int]]

UNREAD = "cannot be read by pydantic: Input should be a valid"


@pytest.mark.requirement("A7")
@pytest.mark.parametrize(
    "value",
    [
        Account(balance=1e22, pet=Pet(name="Rex"), owner=UUID(int=1), rest={"a": [1, None]}),
        Account(opened_at=datetime(2024, 5, 1, tzinfo=timezone(timedelta(hours=-3)))),
        Strict(strict_id=UUID(int=1), pair=(1, 2)),
        Open(open_at=1, other=[2]),  # type: ignore[call-arg]
        Numbers([1, 2]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_model_comes_back(value: Any) -> None:
    assert comes_back(value)
    assert comes_back(value, case="camel")


def test_the_fields_of_the_model_itself_are_renamed() -> None:
    stored = codec_for(Strict, case="camel", rename={"pair": "PAIR"}).encode(
        Strict(strict_id=UUID(int=1), pair=(1, 2))
    )
    assert stored == {"strictId": str(UUID(int=1)), "PAIR": [1, 2]}


@pytest.mark.parametrize(
    ("fields", "where", "problem"),
    [
        ({"balance": float("nan")}, "balance", "is NaN"),
        ({"owner": "a\0"}, "owner", "a NUL"),
        ({"rest": {"a": ["\0"]}}, "rest.a[0]", "a NUL"),
        ({"rest": (1,)}, "rest", ": (1,) becomes [1]"),
        ({"rest": 1e16}, "rest", f": 1e+16 becomes {10**16}"),
        ({"owner": str(UUID(int=1))}, "owner", f": '{UUID(int=1)}' becomes {UUID(int=1)!r}"),
        ({"pet": Dog(name="Rex")}, "pet", "Dog(name='Rex', loud=True) becomes Pet(name='Rex')"),
        ({"secret": SecretStr("x")}, "secret", "is a secret, which pydantic writes as asterisks"),
        ({"by_pair": {(1, 2): 3}}, "by_pair", f"{UNREAD} array"),
        ({"rest": object()}, "", "cannot be written by pydantic: Unable to serialize unknown type: "
         "<class 'object'>"),
    ],
)  # fmt: skip
def test_a_model_that_would_not_come_back_is_refused(
    fields: dict[str, Any], where: str, problem: str
) -> None:
    with pytest.raises(Unfit) as refused:
        codec_for(Account).encode(Account(**fields))
    assert refused.value.where == where
    assert problem in refused.value.problem
    assert refused.value.remedy


def test_a_model_that_was_never_validated_is_refused() -> None:
    with pytest.raises(Unfit, match="pydantic"):
        codec_for(Pet).encode(Pet.model_construct(name=5))


def test_an_extra_field_with_the_name_of_another_is_refused() -> None:
    with pytest.raises(Unfit, match="has two fields with one name in JSON"):
        codec_for(Open, case="camel").encode(Open(open_at=1, openAt=2))  # type: ignore[call-arg]


def test_a_root_model_cannot_be_told_from_another_arm() -> None:
    with pytest.raises(Unfit, match="is ambiguous"):
        codec_for(Numbers | None)


def test_a_payload_that_the_model_does_not_take_is_refused_with_its_field() -> None:
    with pytest.raises(Unfit, match=r"by pydantic: .* valid UUID.*correct the payload") as no:
        codec_for(Account).decode({"account_id": "x"})
    assert no.value.where == "account_id"
