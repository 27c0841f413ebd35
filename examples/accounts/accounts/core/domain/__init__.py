"""Rules of profiles."""
