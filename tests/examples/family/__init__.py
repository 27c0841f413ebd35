"""Tests of the family hub: its rules alone, and the whole of it as processes."""
