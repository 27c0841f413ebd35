"""Use cases of accounts, and the ports that they need."""
