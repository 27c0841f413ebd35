"""Ports that every context has."""
