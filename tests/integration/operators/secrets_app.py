"""An outbox whose records are full of secrets, and a handler that puts them into its errors."""

import os

from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine

from postroom import HandlersPublisher, Outbox, OutboxRelay, RetrySchedule, UntypedEvent
from postroom.events.registry import EventRegistry

CARD, MAIL, TOKEN = "4929 1234 5678 9012", "canary@example.com", "tok_canary_6d2"
PASSWORD = "canary-pass-88"
"""In a header, and in a URL that a handler shows."""
HIDDEN = (CARD, CARD.replace(" ", ""), MAIL, TOKEN, PASSWORD)
REDACT = ("email", "card.*")
URL_OF_OTHERS = f"postgresql://shop:{PASSWORD}@elsewhere/shop"

registry = EventRegistry()
outbox = Outbox(
    MetaData(),
    redact=REDACT,
    events=registry,
    max_retries=None,
    headers=lambda: {"authorization": f"Bearer {PASSWORD}"},
)


class DeclinedError(Exception):
    """As a handler raises it, with whatever it had at hand."""


@registry.handles("card.charged")
@registry.handles("card.checked")
class Charge:
    """Raises an error whose text, chain and note have every secret of the event in them."""

    async def handle(self, event: UntypedEvent) -> None:
        try:
            raise LookupError(f"no account for {event.payload!r} at {URL_OF_OTHERS}")
        except LookupError as error:
            error.add_note(f"token {event.payload['session']['access_token']}")
            raise DeclinedError(
                f"card {event.payload['card']['number']} of {event.payload['email']} declined"
            ) from error


@registry.handles("card.printed")
class Print:
    """Succeeds."""

    async def handle(self, event: UntypedEvent) -> None: ...


def events(first: int = 7) -> list[UntypedEvent]:
    """Return events that fail, wait behind one that fails, and succeed; `first` is a key."""
    payload = {"email": MAIL, "card": {"number": CARD}, "session": {"access_token": TOKEN}}
    types = ("card.charged", "card.charged", "card.checked", "card.printed")
    return [
        UntypedEvent(
            event_type=each, aggregate_type="order", aggregate_id=str(key), payload=payload
        )
        for key, each in zip((first, first, first + 1, first + 2), types, strict=True)
    ]


def relay() -> OutboxRelay:
    """Make a relay that fails a record at its first refusal."""
    engine = create_async_engine(os.environ["SECRETS_DATABASE_URL"])
    publisher = HandlersPublisher()
    return OutboxRelay(outbox, engine, publisher, retry=RetrySchedule.seconds(1).ending_after(1))
