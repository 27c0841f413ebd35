"""Judges RabbitMQ, as far as a publisher needs it. Pure: no I/O."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from postroom.doctor.finding import Finding, note, ok, problem
from postroom.doctor.routes import binding, declare_exchange, declare_queue

if TYPE_CHECKING:
    from postroom.publishers.rabbitmq.survey import BrokerFacts
    from postroom.publishers.rabbitmq.topology import Queue, Topology

ALARM = "rabbitmqctl status  # which alarm? Then free memory or disk space on the broker"


def judge_connection(broker: "BrokerFacts") -> Iterator[Finding]:
    """Judge whether the broker can be used, and takes messages."""
    yield ok(f"connected: {broker.server or 'RabbitMQ'} at {broker.address}")
    for each in broker.refusals:
        yield note(f"another host of the broker cannot be used: {each.rstrip('.')}")
    if broker.blocked is not None:
        yield problem(f"the broker has blocked publishers: {broker.blocked}", ALARM)


def judge_exchanges(broker: "BrokerFacts", apply: str) -> Iterator[Finding]:
    """Judge whether the exchanges exist. `apply`: the command that declares the topology."""
    declared = [] if broker.topology is None else [each.name for each in broker.topology.exchanges]
    for name, exists in broker.exchanges.items():
        if not exists:
            remedy = apply if name in declared else declare_exchange(name)
            yield problem(f"exchange `{name}` does not exist: records for it wait", remedy)
    if broker.clash is not None:
        yield problem(
            f"no worker can start: {broker.clash.rstrip('.')}",
            f"Delete what differs, once it is empty; then: {apply}",
        )
    found = [name or "(default)" for name, exists in broker.exchanges.items() if exists]
    if found:
        yield ok(f"found: {', '.join(found)}")


def judge_queues(broker: "BrokerFacts", apply: str) -> Iterator[Finding]:
    """Judge whether the queues exist, and have room."""
    declared = {} if broker.topology is None else {q.name: q for q in broker.topology.queues}
    fine = []
    for name, state in broker.queues.items():
        if state is None:
            remedy = apply if name in declared else declare_queue(name)
            yield problem(f"queue `{name}` does not exist: records for it wait", remedy)
        elif (full := _full(declared.get(name), state.messages)) is not None:
            yield problem(
                f"queue `{name}` is full: {state.messages:,} messages, {full},"
                f" {state.consumers} consumers. Records for it wait",
                "Start its consumers, or raise max_length; records leave by themselves then.",
            )
        elif state.messages and not state.consumers:
            yield note(
                f"queue `{name}` has {state.messages:,} messages and no consumer",
                "Start its consumers.",
            )
        else:
            fine.append(name)
    if fine:
        yield ok(f"found, with room for more: {', '.join(fine)}")
    if not broker.queues:
        yield ok("none is known, without a topology. Workers report which routes wait")


def _full(queue: "Queue | None", messages: int) -> str | None:
    """Say what makes a queue refuse messages; None if it has room, or drops old ones."""
    if queue is None:
        return None
    arguments = queue.all_arguments()
    limit = arguments.get("x-max-length")
    refuses = str(arguments.get("x-overflow", "")).startswith("reject-publish")
    return f"max_length is {limit:,}" if refuses and limit and messages >= limit else None


def judge_bindings(broker: "BrokerFacts", topology: "Topology") -> Iterator[Finding]:
    """Judge whether a queue of the topology takes the records of each event type."""
    lost = [
        (event_type, target.place)
        for event_type, targets in broker.targets.items()
        for target in targets
        if target.unroutable == "wait" and not topology.routes(*target.place)
    ]
    for event_type, place in lost:
        yield note(
            f"no queue of the topology takes {event_type} (exchange `{place.exchange}`, routing"
            f" key `{place.routing_key}`): its records wait, unless others have bound a queue",
            f"In the topology: {binding(*place)}",
        )
    if not lost:
        yield ok("a queue of the topology takes every known event type")
