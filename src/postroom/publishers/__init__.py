"""Step 5 of the journey: the ways out."""
