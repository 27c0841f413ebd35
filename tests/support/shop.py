"""The application under test: aggregates, their events, and an outbox on its MetaData."""

from dataclasses import dataclass
from datetime import date
from uuid import UUID

from sqlalchemy import ForeignKey, Uuid
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from postroom import AggregateRoot, DomainEvent, map_outbox_table
from postroom.identity import uuid7


class Base(DeclarativeBase):
    pass


outbox = map_outbox_table(Base.registry)


@dataclass(frozen=True, kw_only=True)
class AccountOpened(DomainEvent, aggregate="account", key="account_id"):
    account_id: UUID
    email: str


@dataclass(frozen=True, kw_only=True)
class AccountRenamed(DomainEvent, aggregate="account", key="account_id"):
    account_id: UUID
    name: str


@dataclass(frozen=True, kw_only=True)
class AccountClosed(DomainEvent, aggregate="account", key="account_id"):
    account_id: UUID


@dataclass(frozen=True, kw_only=True)
class InvoiceIssued(DomainEvent):
    """Says nothing of its aggregate: the invoice that raises it does."""

    total: int


class Account(AggregateRoot, Base):
    __tablename__ = "accounts"

    id: Mapped[UUID] = mapped_column(Uuid, primary_key=True)
    email: Mapped[str]
    name: Mapped[str]
    # Deferred: what breaks it, breaks the COMMIT.
    referrer_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("accounts.id", deferrable=True, initially="DEFERRED")
    )

    @classmethod
    def open(cls, name: str, email: str = "a@b.com") -> "Account":
        account = cls(id=uuid7(), name=name, email=email)
        account.raise_event(AccountOpened(account_id=account.id, email=email))
        return account

    def rename(self, name: str) -> None:
        self.name = name
        self.raise_event(AccountRenamed(account_id=self.id, name=name))

    def close(self) -> None:
        self.raise_event(AccountClosed(account_id=self.id))


class Invoice(AggregateRoot, Base):
    __tablename__ = "invoices"

    id: Mapped[int] = mapped_column(primary_key=True)  # the database's making
    account_id: Mapped[UUID | None] = mapped_column(ForeignKey("accounts.id"))

    @classmethod
    def issue(cls, total: int) -> "Invoice":
        invoice = cls()
        invoice.raise_event(InvoiceIssued(total=total))
        return invoice


class OrderLine(AggregateRoot, Base):
    __tablename__ = "order_lines"

    order: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)


class DayBook(AggregateRoot, Base):
    """Its key is one that postroom cannot take for an aggregate's id."""

    __tablename__ = "day_books"

    day: Mapped[date] = mapped_column(primary_key=True)


class Note(Base):
    """Not an aggregate."""

    __tablename__ = "notes"

    id: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str]
