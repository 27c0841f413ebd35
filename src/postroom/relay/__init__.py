"""Step 4 of the journey: claimed, delivered, settled."""
