"""PostgreSQL, RabbitMQ and the clock behind the ports of the application."""
