"""The moment between the UPDATE of a settlement and its COMMIT: a test freezes or cuts there."""

import os
import signal
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, event, make_url

from tests.support.proxy import HOST, How, Link, Proxy


def is_settlement(statement: str) -> bool:
    """Tell whether a statement writes down deliveries."""
    return "UPDATE" in statement and "published_at" in statement


def freeze_before_commit(mark: Path) -> None:
    """Have this process make a file and freeze, before it commits its first settlement."""
    settling: set[Connection] = set()

    @event.listens_for(Engine, "before_cursor_execute")
    def note(connection: Connection, cursor: Any, statement: str, *_: Any) -> None:
        if is_settlement(statement):
            settling.add(connection)

    @event.listens_for(Engine, "commit")
    def freeze(connection: Connection) -> None:
        if connection in settling and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGSTOP)


class CommitSwallower:
    """Stalls the connection that is about to commit a settlement, and if told all others too."""

    def __init__(self, proxy: Proxy, *, cuts_all: bool) -> None:
        self.done = False
        self._proxy = proxy
        self._cuts_all = cuts_all
        self._settling: set[Link] = set()
        proxy.on_sent = self._look

    def _look(self, link: Link, data: bytes) -> None:
        if is_settlement(data.decode(errors="replace")):
            self._settling.add(link)
        elif b"COMMIT" in data and link in self._settling and not self.done:
            self.done = True
            link.suffer(How.STALL)
            if self._cuts_all:
                self._proxy.go_away(How.STALL)


def through(proxy: Proxy, url: str) -> str:
    """Give the URL of a database as it is behind a proxy."""
    address = make_url(url).set(host=HOST, port=proxy.port)
    return address.render_as_string(hide_password=False)


def port_of(url: str) -> int:
    """Give the port of a database."""
    port = make_url(url).port
    assert port is not None
    return port
