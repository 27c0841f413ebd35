"""The shared kernel: what both contexts stand on."""
