"""Mappers of what belongs to no context."""
