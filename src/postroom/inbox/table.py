"""The table of an inbox: which consumer has received which message."""

from sqlalchemy import Column, Index, MetaData, String, Table

from postroom.columns import moment_column


def define_inbox(metadata: MetaData, name: str, schema: str | None) -> Table:
    """Define a table of what has been received, and by whom."""
    inbox = Table(
        name,
        metadata,
        Column("message_id", String(255), primary_key=True),
        Column("consumer", String(255), primary_key=True),
        moment_column("received_at"),
        schema=schema,
        comment="postroom: messages that a consumer or a handler has processed",
    )
    Index(f"ix_{name}_received_at", inbox.c.received_at)
    return inbox
