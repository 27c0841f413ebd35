"""Step 2 of the journey: saved in your transaction."""
