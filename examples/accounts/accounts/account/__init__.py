"""The Account context: who may come in."""
