"""Rules and events of accounts."""
