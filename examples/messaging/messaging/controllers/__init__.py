"""What can be done with each kind of thing; they know of the bus, and of no outbox or broker."""
