"""After crashes: send records one at a time per partition, each written down before it is sent."""

from postroom.relay.delivery import Delivery
from postroom.relay.poison import Poison
from postroom.store.base import HeldRecord
from postroom.store.store import Store


async def send_suspects(
    chosen: dict[HeldRecord, int], store: Store, worker: str, poison: Poison, delivery: Delivery
) -> None:
    """Send records whose partitions lost their last holders, with how often that has begun."""
    for record, begun in list(chosen.items()):
        if poison.kills(begun):
            del chosen[record]
            delivery.refuse(
                record, f"the process died {begun - 1} times while it delivered this record"
            )
    if chosen:
        for record in await store.leases.suspect(worker, chosen):
            poison.sent(record, chosen[record])
            delivery.send_alone(record)
