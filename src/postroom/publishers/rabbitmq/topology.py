"""What has to be on a broker, as data: exchanges, queues, and what is bound to what."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from typing import Any, Literal, get_args

from postroom.errors import ConfigurationError
from postroom.publishers.topics import topic_matches

ExchangeType = Literal["topic", "direct", "fanout", "headers"]
QueueType = Literal["classic", "quorum"]
Overflow = Literal["drop-head", "reject-publish"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange. `alternate` names the exchange that gets what no queue of this one takes."""

    name: str
    type: ExchangeType | str = "topic"
    _: KW_ONLY
    durable: bool = True
    alternate: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def all_arguments(self) -> dict[str, Any]:
        """Return the arguments beyond name, type and durability."""
        return {**_given({"alternate-exchange": self.alternate}), **self.arguments}


@dataclass(frozen=True, slots=True)
class Binding:
    """Has a queue take what comes to an exchange with a fitting routing key."""

    exchange: str
    routing_key: str = "#"
    _: KW_ONLY
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue, and what it takes.

    - `dead_letter`: the exchange that gets what consumers reject, and what expires or overflows
    - `max_length`, `overflow`: what a full queue does; "reject-publish" refuses, so that nothing
      is lost
    - `arguments`: anything else that RabbitMQ knows, by its own name: `x-single-active-consumer`
    """

    name: str
    bindings: Sequence[Binding] = ()
    _: KW_ONLY
    type: QueueType = "classic"
    durable: bool = True
    dead_letter: str | None = None
    max_length: int | None = None
    overflow: Overflow | None = None
    message_ttl: timedelta | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)

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
        """Return the arguments beyond name and durability."""
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
    """What a publisher declares when it connects. What is not in it is not its own.

    A queue may be bound to an exchange that is not here, or dead-letter to one: that exchange has
    to be on the broker, and is left as it is.
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
        """Give the exchanges that it needs and does not declare."""
        own = {exchange.name for exchange in self.exchanges}
        needed = {exchange.alternate for exchange in self.exchanges}
        for queue in self.queues:
            needed |= {queue.dead_letter, *(binding.exchange for binding in queue.bindings)}
        return sorted(name for name in needed - own if name)

    def routes(self, exchange: str, routing_key: str) -> bool:
        """Tell whether a queue of it should take a message. If in doubt, one should."""
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
        """Tell what it holds, a line for each exchange, queue and binding."""
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
