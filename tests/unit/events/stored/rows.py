"""The rows, and the events that they have to give."""

import json
from pathlib import Path
from typing import Any

from tests.unit.events.stored import classes, models, types
from tests.unit.events.stored.cases import Case

FILE = Path(__file__).parent / "rows.json"
CASES: list[Case] = [*types.CASES, *classes.CASES, *models.CASES]


def stored_rows() -> dict[str, dict[str, Any]]:
    """Give the rows by the names of their cases: event_type, event_version, payload as text."""
    rows: dict[str, dict[str, Any]] = json.loads(FILE.read_text()) if FILE.exists() else {}
    return rows
