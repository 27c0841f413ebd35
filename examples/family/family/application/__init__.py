"""What users can have done: a command and its handler per file, and the ports they need."""
