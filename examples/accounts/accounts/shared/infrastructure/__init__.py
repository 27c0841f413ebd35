"""Adapters that every context uses."""
