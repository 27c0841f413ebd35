"""Facts about the database of an outbox, for `postroom doctor`. What they mean is said there."""
