"""The Account context: sign-up and accounts."""
