"""The frames of a login. Pure."""

import os
import socket
import sys
from pathlib import Path
from typing import Any, Final

from pamqp import commands

from postroom.publishers.rabbitmq.amqp.address import Address
from postroom.publishers.rabbitmq.amqp.errors import ConnectError

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
REMEDIES: Final = {
    "PLAIN": "Add PLAIN to the broker's auth_mechanisms, or log in with a client certificate"
    " (auth_mechanism=external in the URL).",
    "EXTERNAL": "Enable the broker's plugin rabbitmq_auth_mechanism_ssl, and add EXTERNAL to its"
    " auth_mechanisms.",
}


def server_name(start: commands.Connection.Start) -> str:
    """Read the product and version of a server: `RabbitMQ 4.0.5`."""
    properties = start.server_properties or {}
    return " ".join(str(properties.get(name, "")) for name in ("product", "version"))


def start_ok(address: Address, start: commands.Connection.Start) -> commands.Connection.StartOk:
    """Make the answer to Start: who we are. Raises ConnectError if the broker cannot take it."""
    mechanism = "EXTERNAL" if address.external else "PLAIN"
    offered = (start.mechanisms or "").split()
    if mechanism not in offered:
        raise ConnectError(
            f"RabbitMQ at {address} offers no login by {mechanism}: it offers"
            f" {', '.join(offered) or 'none'}. {REMEDIES[mechanism]}"
        )
    return commands.Connection.StartOk(
        client_properties={**CLIENT, "connection_name": connection_name(address)},
        mechanism=mechanism,
        response="" if address.external else f"\0{address.user}\0{address.password}",
    )


def connection_name(address: Address) -> str:
    """Name the connection for the broker's tools: program, host, process id."""
    return f"{address.name or program()} {socket.gethostname()}:{os.getpid()}"


def program() -> str:
    """Return the name of the program: `uvicorn`, `postroom`, or the package after `python -m`."""
    path = Path(sys.argv[0] if sys.argv else "")
    name = path.parent.name if path.stem == "__main__" else path.stem
    return "python" if name in ("", "-c", "-m", "-") else name


def tune_ok(address: Address, tune: commands.Connection.Tune) -> commands.Connection.TuneOk:
    """Make the answer to Tune: the smaller frame size, and the shorter heartbeat."""
    wanted, offered = address.heartbeat, tune.heartbeat or 0
    return commands.Connection.TuneOk(
        channel_max=tune.channel_max or 0,
        frame_max=min(tune.frame_max or FRAME_MAX, FRAME_MAX),
        heartbeat=min(wanted, offered) if wanted and offered else wanted,
    )
