"""Accounts in the main database."""
