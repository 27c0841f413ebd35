"""Adapters of the Core context."""
