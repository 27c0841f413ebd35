"""The outbox, in the application's own registry and metadata."""

from postroom import Outbox, map_outbox_table

from accounts.shared.infrastructure.persistence.registry import mapper_registry


def map_outbox() -> Outbox:
    """Map postroom's record to the table `outbox`."""
    return map_outbox_table(mapper_registry)
