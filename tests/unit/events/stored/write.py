"""Save the events that have no row yet, and add their rows to `rows.json`."""

import json
from typing import Any

from sqlalchemy import MetaData, create_engine, text
from sqlalchemy.orm import Session

from postroom import EventRegistry, Outbox
from tests.support.postgres import temporary_database
from tests.unit.events.stored.cases import Case
from tests.unit.events.stored.rows import CASES, FILE, stored_rows

_ROW = text("SELECT event_type, event_version, payload::text AS payload FROM outbox WHERE id = :id")


def main() -> None:
    rows = stored_rows()
    missing = [case for case in CASES if case.name not in rows]
    with temporary_database("stored") as url:
        engine = create_engine(url.set(drivername="postgresql+psycopg"))
        outbox = Outbox(MetaData(), events=EventRegistry())
        outbox.metadata.create_all(engine)
        with Session(engine) as session:
            rows |= {case.name: _saved(session, outbox, case) for case in missing}
        engine.dispose()
    FILE.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")


def _saved(session: Session, outbox: Outbox, case: Case) -> dict[str, Any]:
    outbox.dispatcher(session).dispatch_sync([case.written])
    session.commit()
    return dict(session.execute(_ROW, {"id": case.written.event_id}).mappings().one())


if __name__ == "__main__":
    main()
