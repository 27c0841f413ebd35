"""Rows that the first version of postroom stored, and the events that they give for ever.

`rows.json` holds what PostgreSQL held: a row is never changed, and never taken away. For a new
type, add an event and its row: `python -m tests.unit.events.stored.write` adds the missing rows.
"""
