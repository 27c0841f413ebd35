"""Where to claim next, how many records, and from which position on. Pure: no I/O."""

from collections.abc import Collection, Mapping, Set

from postroom.relay.leases import HeldLeases
from postroom.store.base import Claim, HeldRecord
from postroom.store.key_order import KeyOrder

LEAST_DEPTH = 8
"""How many records of a partition are held at least, before it counts as full."""
REREAD_SHARE = 0.1
"""The part of the time that claims may spend on reading again what they have read before."""
LONGEST_PAUSE = 1.0
"""Seconds after which everything is read again at the latest."""


class ClaimPlan:
    """Plans claims. `capacity`: how many records are held at most.

    Between full claims, a claim reads a partition from where the last one ended: what was
    delivered lately is slow to read past while an old snapshot is open. A full claim finds the
    record with a lower position that committed late.
    """

    def __init__(
        self, order: KeyOrder, leases: HeldLeases, *, capacity: int, batch_size: int
    ) -> None:
        self._order = order
        self._leases = leases
        self._capacity = capacity
        self._batch_size = batch_size
        self._more: set[int] = set()  # the partitions that may have more to claim
        self._full_claim_at = 0.0
        self._empty_claims = 0

    def look_into(self, partitions: Collection[int]) -> None:
        """Claim from these partitions, and from no other."""
        self._more = set(partitions)

    def look_again(self, record: HeldRecord) -> None:
        """Claim from the start of a record's partition: records of its key may be released."""
        self._more.add(record.partition)
        self._order.floors.pop(record.partition, None)

    @property
    def no_room_for(self) -> Set[int]:
        """The partitions that cannot be claimed from, because too many records are held."""
        enough = self._batch_size if self._order.sendable else max(1, self._batch_size // 4)
        return self._more if self._capacity - len(self._order.held) < enough else set()

    def partitions(self, now: float) -> dict[int, int]:
        """Return the partitions to claim from, with the tokens of their leases."""
        if self.no_room_for:
            return {}
        depth = max(LEAST_DEPTH, self._capacity // max(1, len(self._leases)))
        few = [each for each in self._more if self._order.load(each).held < depth]
        tokens = self._leases.claimable(now) if few else {}
        return {partition: tokens[partition] for partition in few if partition in tokens}

    def depth(self, partitions: Collection[int]) -> int:
        """Return how many records to claim of each partition, so that a claim has many keys."""
        return -(-(self._capacity - len(self._order.held)) // len(partitions))

    def floors(self, now: float) -> Mapping[int, int]:
        """Return from which positions on to read; none for a full claim."""
        return {} if now >= self._full_claim_at else self._order.floors

    def claimed(
        self, claim: Claim, partitions: Collection[int], *, full: bool, began: float, ended: float
    ) -> bool:
        """Note what a claim returned; return whether there is nothing to deliver."""
        if full:
            self._full_claim_at = ended + min(LONGEST_PAUSE, (ended - began) / REREAD_SHARE)
        self._order.add(claim, began)
        self._leases.served({each.partition for each in claim.records}, began)
        self._more = (self._more - set(partitions)) | claim.more
        nothing = not (claim.records or self._order.held or self._more)
        if nothing:
            self._full_claim_at = 0.0  # nothing new is not yet nothing at all
        self._empty_claims = self._empty_claims + 1 if nothing else 0
        return nothing

    @property
    def first_empty_claim(self) -> bool:
        """Whether the last claim found nothing, for the first time in a row."""
        return self._empty_claims == 1
