"""The Core context: profiles."""
