"""Every table and mapper of the application, for its process and for its migrations."""

from functools import cache

from accounts.account.infrastructure.persistence.mapper import map_accounts_table
from accounts.core.infrastructure.persistence.mapper import map_profiles_table
from accounts.shared.infrastructure.persistence.mappers.outbox import map_outbox
from postroom import Outbox


@cache  # a class is mapped once, however many applications a process makes
def start_mappers() -> Outbox:
    """Map the classes of all contexts, and the records of the outbox beside them."""
    map_accounts_table()
    map_profiles_table()
    return map_outbox()
