"""Step 1 of the journey: something happened."""
