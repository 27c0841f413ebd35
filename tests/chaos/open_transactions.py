"""Stops a worker between the UPDATE of a settlement and its COMMIT: freezes it, or cuts it off."""

import os
import re
import signal
from pathlib import Path
from typing import Any

import asyncpg
from sqlalchemy import make_url

from postroom.database.asyncpg import AsyncpgTransactions
from tests.support.listening import HOST
from tests.support.proxy import How, Link, Proxy

PREPARED = re.compile(rb"__asyncpg_stmt_\w+__")


def is_settlement(statement: str) -> bool:
    """Tell whether a statement writes down deliveries."""
    return "UPDATE" in statement and "published_at" in statement


def freeze_before_commit(mark: Path) -> None:
    """Have this process make a file and freeze, before it commits its first settlement."""
    settling: set[Any] = set()
    run, execute = AsyncpgTransactions._execute, asyncpg.Connection.execute

    async def note(self: AsyncpgTransactions, driver: Any, statement: Any, values: Any) -> Any:
        if is_settlement(str(statement)):
            settling.add(driver)
        return await run(self, driver, statement, values)

    def freeze(driver: Any, query: str, *args: Any, **options: Any) -> Any:
        if query == "COMMIT" and driver in settling and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGSTOP)
        settling.discard(driver)
        return execute(driver, query, *args, **options)

    AsyncpgTransactions._execute = note  # type: ignore[method-assign]
    asyncpg.Connection.execute = freeze  # type: ignore[method-assign, assignment]


class CommitSwallower:
    """Stalls the connection that is about to commit a settlement, and if told all others too."""

    def __init__(self, proxy: Proxy, *, cuts_all: bool) -> None:
        self.done = False
        self._proxy = proxy
        self._cuts_all = cuts_all
        self._settling: set[Link] = set()
        self._names: set[bytes] = set()  # of prepared statements
        proxy.on_sent = self._look

    def _look(self, link: Link, data: bytes) -> None:
        if is_settlement(data.decode(errors="replace")):
            self._names.update(PREPARED.findall(data))
        if b"BEGIN" in data:
            self._settling.discard(link)
        elif any(name in data for name in self._names):
            self._settling.add(link)
        elif b"COMMIT" in data and link in self._settling and not self.done:
            self.done = True
            link.suffer(How.STALL)
            if self._cuts_all:
                self._proxy.go_away(How.STALL)


def through(proxy: Proxy, url: str) -> str:
    """Give the URL of a database as it is behind a proxy, which has to read what it passes on."""
    address = make_url(url).set(host=HOST, port=proxy.port).update_query_dict({"ssl": "disable"})
    return address.render_as_string(hide_password=False)


def port_of(url: str) -> int:
    """Give the port of a database."""
    port = make_url(url).port
    assert port is not None
    return port
