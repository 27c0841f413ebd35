"""The tables of an outbox: their definition, the check of a database, its upgrade."""
