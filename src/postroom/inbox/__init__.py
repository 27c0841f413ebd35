"""Step 6 of the journey: received once."""
