"""An application under uvicorn, in a process of its own, on a port of its own."""

import re
import time
from ssl import PROTOCOL_TLS_CLIENT, SSLContext

import httpx

from tests.support.command import Command, Commands
from tests.support.waiting import PATIENCE

NO_CERTIFICATES = SSLContext(PROTOCOL_TLS_CLIENT)
"""For clients of http only: to load certificates takes longer than most tests."""
ADDRESS = re.compile(r"Uvicorn running on (http://\S+)")


class Server:
    """A process that answers HTTP, with what it writes."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.url = self._wait()

    def client(self) -> httpx.AsyncClient:
        """Make a client of it, as patient as the tests are."""
        return httpx.AsyncClient(base_url=self.url, timeout=PATIENCE, verify=NO_CERTIFICATES)

    def _wait(self) -> str:
        """Wait until it listens, and give its address. (Also where no event loop runs.)"""
        give_up = time.monotonic() + PATIENCE
        while not (found := ADDRESS.search(self.command.err)):
            assert not self.command.ended, self.command.err
            assert time.monotonic() < give_up, self.command.err
            time.sleep(0.02)
        return found[1]


def serve(commands: Commands, factory: str, *options: str, **environment: str) -> Server:
    """Start uvicorn for `module:factory`, and wait until it answers."""
    words = ["-m", "uvicorn", "--factory", factory, "--port", "0", *options]
    return Server(commands.python(*words, **environment))
