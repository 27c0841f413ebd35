"""The frames of a login: what a client says about itself, and what it agrees to. No I/O."""

from typing import Any, Final

from pamqp import commands

from postroom.publishers.rabbitmq.amqp.address import Address

FRAME_MAX: Final = 128 * 1024
CLIENT: Final[dict[str, Any]] = {
    "product": "postroom",
    "capabilities": {
        "authentication_failure_close": True,  # else a wrong password looks like a lost connection
        "basic.nack": True,
        "connection.blocked": True,
        "publisher_confirms": True,
    },
}


def server_name(start: commands.Connection.Start) -> str:
    """Read the product and version of a server: `RabbitMQ 4.0.5`."""
    properties = start.server_properties or {}
    return " ".join(str(properties.get(name, "")) for name in ("product", "version"))


def start_ok(address: Address) -> commands.Connection.StartOk:
    """Make the answer to Start: user, password, and what this client can do."""
    return commands.Connection.StartOk(
        client_properties={**CLIENT, "connection_name": address.name},
        mechanism="PLAIN",
        response=f"\0{address.user}\0{address.password}",
    )


def tune_ok(address: Address, tune: commands.Connection.Tune) -> commands.Connection.TuneOk:
    """Make the answer to Tune: the smaller frame size, and the shorter heartbeat."""
    wanted, offered = address.heartbeat, tune.heartbeat or 0
    return commands.Connection.TuneOk(
        channel_max=tune.channel_max or 0,
        frame_max=min(tune.frame_max or FRAME_MAX, FRAME_MAX),
        heartbeat=min(wanted, offered) if wanted and offered else wanted,
    )
