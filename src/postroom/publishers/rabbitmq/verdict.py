"""What the broker's answers mean for a record."""

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from postroom.publishers.base import Outcome, Postponed, Refused
from postroom.publishers.rabbitmq.amqp.errors import ClosedError, ReplyCode
from postroom.publishers.rabbitmq.parcel import Parcel

# By text, because a reply code does not say which exchange or key, nor which limit was exceeded.
TOO_LARGE: Final = re.compile(r"larger than .*?max size '?(\d+)")
EXCHANGE: Final = re.compile(r"(?:no|access to) exchange '([^']*)'")
TOPIC: Final = re.compile(r"access to topic '(?P<key>[^']*)' in exchange '(?P<exchange>[^']*)'")
LATER: Final = timedelta(seconds=1)
"""How long a record waits of which nothing is known."""


def unanswered(parcels: Iterable[Parcel]) -> list[Parcel]:
    """Give the parcels that nothing is known of."""
    return [parcel for parcel in parcels if parcel.outcome is None]


def size_limit(error: ClosedError) -> int | None:
    """Read how large a message may be, if one was too large."""
    limit = TOO_LARGE.search(error.reason) if error.code == ReplyCode.PRECONDITION_FAILED else None
    return None if limit is None else int(limit[1])


def is_about_one_key(error: ClosedError) -> bool:
    """Tell whether an exchange may be written to, only not with this routing key."""
    return TOPIC.search(error.reason) is not None


def named_by(error: ClosedError, parcels: Sequence[Parcel]) -> list[Parcel]:
    """Give those whom the broker names as what it closed a channel for."""
    topic, exchange = TOPIC.search(error.reason), EXCHANGE.search(error.reason)
    if topic is not None:
        return [each for each in parcels if each.place == (topic["exchange"], topic["key"])]
    if exchange is not None:
        return [each for each in parcels if each.place.exchange == exchange[1]]
    return []


def verdict(parcels: Sequence[Parcel]) -> Outcome:
    """Give the outcome of a record that has not arrived everywhere.

    It waits for the destination that takes the longest.
    """
    refused = [each.outcome for each in parcels if isinstance(each.outcome, Refused)]
    postponed = [each.outcome for each in parcels if isinstance(each.outcome, Postponed)]
    reason = "; ".join([each.reason for each in refused] + [each.reason for each in postponed])
    if refused:
        permanent = not postponed and all(each.permanent for each in refused)
        return Refused(reason, permanent=permanent)
    return Postponed(reason, max((each.delay for each in postponed), default=LATER))
