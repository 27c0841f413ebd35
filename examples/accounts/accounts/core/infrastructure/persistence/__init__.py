"""Profiles in the main database."""
