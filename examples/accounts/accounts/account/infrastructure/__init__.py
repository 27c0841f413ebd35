"""Adapters of the Account context."""
