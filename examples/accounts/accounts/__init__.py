"""Accounts: a hexagonal application whose contexts talk by events that are never lost."""
