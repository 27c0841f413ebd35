"""What the Core context does about events: every module here is found at start-up."""
