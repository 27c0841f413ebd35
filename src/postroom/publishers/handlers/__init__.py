"""Delivery to handlers in this process."""
