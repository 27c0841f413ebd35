"""One small file per framework."""
