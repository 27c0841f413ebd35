"""Mappers of tables that belong to no context."""
