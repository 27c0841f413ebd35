"""What PostgreSQL does to JSON."""

import json
from decimal import Decimal
from typing import Any


def as_jsonb(stored: Any) -> Any:
    """What PostgreSQL's JSONB makes of JSON: keys sorted, 1e22 as an integer, no negative zero."""
    if isinstance(stored, dict):
        return {key: as_jsonb(stored[key]) for key in sorted(stored, key=lambda k: (len(k), k))}
    if isinstance(stored, list):
        return [as_jsonb(item) for item in stored]
    if isinstance(stored, float):
        return json.loads(f"{Decimal(repr(stored)):f}".removeprefix("-" if not stored else ""))
    return stored
