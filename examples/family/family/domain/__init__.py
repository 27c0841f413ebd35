"""What families and invitations are and allow: no framework, no database."""
