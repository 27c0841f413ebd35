"""Messages to groups of contacts, at once or on a schedule; what happens is told to RabbitMQ."""
