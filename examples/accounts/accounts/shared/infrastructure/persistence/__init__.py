"""The main database: its metadata, sessions and start-up check."""
