"""The ports of the Core context."""
