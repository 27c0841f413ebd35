"""Handlers that only `auto_discover_handlers` finds."""
