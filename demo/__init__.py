"""The messaging application with traffic, faults and a page to watch them: `make demo`."""
