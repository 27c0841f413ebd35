"""A client for RabbitMQ by AMQP 0-9-1. It imports nothing of postroom."""
