"""`Topology`: exchanges, queues and bindings as data."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import Any, Literal, get_args

from postroom.errors import ConfigurationError
from postroom.events.topics import topic_matches

ExchangeType = Literal["topic", "direct", "fanout", "headers"]
QueueType = Literal["classic", "quorum"]
Overflow = Literal["drop-head", "reject-publish"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange of a topology."""

    name: str
    type: ExchangeType | str = "topic"
    """`topic`, `direct`, `fanout`, `headers`, or a type of a plug-in."""
    _: KW_ONLY
    durable: bool = True
    alternate: str | None = None
    """The exchange that gets messages which no queue of this one takes."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Other arguments, by RabbitMQ's own names."""

    def all_arguments(self) -> dict[str, Any]:
        """Return the arguments for the declaration, `alternate` included."""
        return {**_given({"alternate-exchange": self.alternate}), **self.arguments}


@dataclass(frozen=True, slots=True)
class Binding:
    """A binding of a queue: it takes messages of an exchange whose routing key matches."""

    exchange: str
    routing_key: str = "#"
    _: KW_ONLY
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue of a topology, with its bindings. Raises ConfigurationError for a wrong type."""

    name: str
    bindings: Sequence[Binding] = ()
    _: KW_ONLY
    type: QueueType = "classic"
    """`classic` or `quorum`."""
    durable: bool = True
    dead_letter: str | None = None
    """The exchange that gets messages which are rejected by consumers, expire or overflow."""
    max_length: int | None = None
    """How many messages the queue holds at most."""
    overflow: Overflow | None = None
    """What a full queue does: `drop-head` loses the oldest; `reject-publish` loses nothing."""
    message_ttl: timedelta | None = None
    """The time after which a message expires."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Other arguments, by RabbitMQ's own names: `x-single-active-consumer`."""

    def __post_init__(self) -> None:
        if isinstance(self.bindings, Binding):
            object.__setattr__(self, "bindings", (self.bindings,))
        if self.type not in get_args(QueueType):
            raise ConfigurationError(
                f"queue `{self.name}` is of type {self.type!r}: 'classic' or 'quorum'."
            )
        if self.type == "quorum" and not self.durable:
            raise ConfigurationError(f"queue `{self.name}`: a quorum queue is durable.")

    def all_arguments(self) -> dict[str, Any]:
        """Return the arguments for the declaration."""
        ttl = self.message_ttl
        known = {
            "x-queue-type": None if self.type == "classic" else self.type,
            "x-dead-letter-exchange": self.dead_letter,
            "x-max-length": self.max_length,
            "x-overflow": self.overflow,
            "x-message-ttl": None if ttl is None else ttl // timedelta(milliseconds=1),
        }
        return {**_given(known), **self.arguments}


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The exchanges and queues that a publisher declares when it connects.

    A queue may name an exchange that is not in the topology: that exchange has to exist on the
    broker, and is not changed. Raises ConfigurationError for two of one name.
    """

    exchanges: Sequence[Exchange] = ()
    queues: Sequence[Queue] = ()

    def __post_init__(self) -> None:
        for what, named in (("exchange", self.exchanges), ("queue", self.queues)):
            counts = Counter(each.name for each in named)
            if twice := [name for name, count in counts.items() if count > 1]:
                raise ConfigurationError(f"the topology has {what} `{twice[0]}` more than once.")
            if "" in counts:
                raise ConfigurationError(f"the topology has {what} without a name.")

    def foreign(self) -> list[str]:
        """Return the exchanges that the topology needs and does not declare."""
        own = {exchange.name for exchange in self.exchanges}
        needed = {exchange.alternate for exchange in self.exchanges}
        for queue in self.queues:
            needed |= {queue.dead_letter, *(binding.exchange for binding in queue.bindings)}
        return sorted(name for name in needed - own if name)

    def routes(self, exchange: str, routing_key: str) -> bool:
        """Return whether a queue of the topology takes a message; True if that is not certain."""
        if not exchange:
            return any(queue.name == routing_key for queue in self.queues)
        exchanges = {each.name: each for each in self.exchanges}
        looked_at: set[str | None] = set()
        name: str | None = exchange
        while name is not None and name not in looked_at:
            looked_at.add(name)
            declared = exchanges.get(name)
            kind = None if declared is None else declared.type
            bindings = (binding for queue in self.queues for binding in queue.bindings)
            keys = [each.routing_key for each in bindings if each.exchange == name]
            if any(_takes(kind, key, routing_key) for key in keys):
                return True
            name = None if declared is None else declared.alternate
        return False

    def describe(self) -> list[str]:
        """Return a line of text for each exchange, queue and binding."""
        lines = []
        for exchange in self.exchanges:
            traits = _traits(exchange.durable, exchange.all_arguments())
            lines.append(f"exchange {exchange.name} ({exchange.type}{traits})")
        for queue in self.queues:
            arguments = queue.all_arguments()
            arguments.pop("x-queue-type", None)
            lines.append(f"queue {queue.name} ({queue.type}{_traits(queue.durable, arguments)})")
            for binding in queue.bindings:
                lines.append(f"  from {binding.exchange} by {binding.routing_key}")
        return lines


def _takes(kind: str | None, pattern: str, routing_key: str) -> bool:
    if kind == "topic":
        return topic_matches(pattern, routing_key)
    return kind != "direct" or pattern == routing_key


def _traits(durable: bool, arguments: Mapping[str, Any]) -> str:
    listed = [f"{name}={value}" for name, value in arguments.items()]
    return "".join(f", {each}" for each in ([] if durable else ["not durable"]) + listed)


def _given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}
