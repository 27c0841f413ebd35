"""What to do about a route that takes no records. Pure: no I/O."""

import re
from shlex import quote
from typing import Final

APPLY: Final = "postroom topology MODULE:RELAY --apply  # if the topology declares it"
HANDLERS: Final = "Deploy workers that know it; auto_discover_handlers(package) imports handlers."
KEY: Final = re.compile(r"routing key `(?P<key>.*)` of exchange `(?P<exchange>.*)`")
QUEUE: Final = re.compile(r"queue `(?P<queue>.*)` \(by the default exchange\)")
EXCHANGE: Final = re.compile(r"exchange `(?P<exchange>[^`]*)`")


def route_remedy(route: str, reason: str) -> tuple[str, ...]:
    """Return what to do, by how a publisher names a route and what the broker says about it."""
    if route.startswith("handlers of "):
        return (HANDLERS,)
    if "is full" in reason:
        return (
            "rabbitmqctl list_queues -p VHOST name messages consumers  # which one is full?",
            "Start its consumers, or raise its max-length; records leave by themselves then.",
        )
    if "access" in reason.lower():
        return ("rabbitmqctl set_permissions -p VHOST USER CONFIGURE WRITE READ",)
    if found := QUEUE.search(route):
        return (APPLY, f"Or: {declare_queue(found['queue'])}")
    if found := KEY.search(route):
        bound = binding(found["exchange"], found["key"])
        return (f"In the topology: {bound}", APPLY, f"Or: {bind(found['exchange'], found['key'])}")
    if found := EXCHANGE.search(route):
        return (APPLY, f"Or: {declare_exchange(found['exchange'])}")
    return ()


def binding(exchange: str, routing_key: str) -> str:
    """Write a queue of a topology that takes a routing key."""
    return f'Queue(…, [Binding("{exchange}", "{routing_key}")])'


def declare_exchange(name: str) -> str:
    """Write the command that declares an exchange."""
    return f"postroom topology --broker URL --exchange {quote(name)} --apply"


def declare_queue(name: str) -> str:
    """Write the command that declares a queue."""
    return f"rabbitmqadmin --vhost VHOST declare queue {quote(f'name={name}')} durable=true"


def bind(exchange: str, routing_key: str) -> str:
    """Write the command that binds a queue."""
    words = (f"source={exchange}", "destination=QUEUE", f"routing_key={routing_key}")
    return f"rabbitmqadmin --vhost VHOST declare binding {' '.join(map(quote, words))}"
