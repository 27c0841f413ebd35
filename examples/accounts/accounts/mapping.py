"""All tables and mappers, for the application and for its migrations."""

from functools import cache

from postroom import Outbox

from accounts.account.infrastructure.persistence.mapper import map_accounts_table
from accounts.core.infrastructure.persistence.mapper import map_profiles_table
from accounts.shared.infrastructure.persistence.mappers.outbox import map_outbox


@cache  # a class is mapped once in a process
def start_mappers() -> Outbox:
    """Map the classes of all contexts and the record of the outbox."""
    map_accounts_table()
    map_profiles_table()
    return map_outbox()
