"""The Core context: what people do once they are in."""
