"""Event handlers of the Account context. Every module here is imported at start-up."""
