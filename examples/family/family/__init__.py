"""Families invite members by email: GraphQL in, RabbitMQ out, an outbox in between."""
