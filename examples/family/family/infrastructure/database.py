"""The engine that the application and the worker use."""

from sqlalchemy import URL
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

PATIENCE = {"timeout": 10, "command_timeout": 15}
"""Seconds for a connection, and for a statement: a database that falls silent is given up."""


def make_engine(url: URL) -> AsyncEngine:
    """Make an engine; it connects when it is used. Errors and logs do not show parameters."""
    return create_async_engine(url, hide_parameters=True, pool_pre_ping=True, connect_args=PATIENCE)
