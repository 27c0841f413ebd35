"""A web server in small: commits, forks, and the child commits too: python -m … URL TABLE.

The parent never closes what notifies: as a program does that has heard of no such thing.
"""

import os
import sys
import warnings

from sqlalchemy import Engine, MetaData, create_engine, make_url
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session

from postroom import Outbox, UntypedEvent


def commit(outbox: Outbox, engine: Engine, name: str) -> None:
    with Session(engine) as session, session.begin():
        outbox.dispatcher(session).dispatch_sync([UntypedEvent(event_type=name, payload={})])


def main(url: str, table: str) -> None:
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"))
    outbox = Outbox(MetaData(), table=table)
    asynchronous = make_url(url).drivername == "postgresql+asyncpg"
    notifier = outbox.notify_workers(create_async_engine(url) if asynchronous else engine)
    commit(outbox, engine, "parent")
    input()  # until the test has heard of it: OpenSSL bears no fork while somebody connects
    child = os.fork()
    if child == 0:
        engine.dispose(close=False)
        commit(outbox, engine, "child")
        notifier.close()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    commit(outbox, engine, "parent")
    input()  # until the test has heard of that too
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    # Python 3.12 advises against forks with threads.
    warnings.simplefilter("ignore", DeprecationWarning)
    main(*sys.argv[1:])
