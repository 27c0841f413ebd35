"""Ports for servers of a test's own, also while a server is stopped and started again."""

import socket
from contextlib import ExitStack
from random import SystemRandom

HOST = "127.0.0.1"
PORTS = range(15_000, 32_000)
"""Below those that the kernel gives to clients: one of them would take the port meanwhile."""


def free_ports(count: int) -> list[int]:
    """Give ports that nobody listens on, at random: pytest workers share the seed of `random`."""
    with ExitStack() as stack:
        ports: list[int] = []
        while len(ports) < count:
            probe, port = stack.enter_context(socket.socket()), SystemRandom().choice(PORTS)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            ports.append(port)
        return ports
