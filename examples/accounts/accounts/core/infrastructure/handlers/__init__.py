"""Event handlers of the Core context. Every module here is imported at start-up."""
