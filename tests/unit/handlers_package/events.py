"""The events that the handlers of this package handle."""

from dataclasses import dataclass

from postroom import DomainEvent


@dataclass(frozen=True, kw_only=True)
class ParcelSent(DomainEvent, aggregate="parcel", key="parcel_id"):
    parcel_id: int


@dataclass(frozen=True, kw_only=True)
class ParcelLost(DomainEvent, aggregate="parcel", key="parcel_id"):
    parcel_id: int
