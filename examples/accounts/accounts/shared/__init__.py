"""The shared kernel: what both contexts use."""
