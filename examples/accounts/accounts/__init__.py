"""Accounts: a hexagonal application whose contexts communicate by events."""
