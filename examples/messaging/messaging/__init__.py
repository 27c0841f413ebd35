"""Messages to groups of contacts, at once or on a schedule; their events go to RabbitMQ."""
