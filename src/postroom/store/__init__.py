"""Step 3 of the journey: rows waiting."""
