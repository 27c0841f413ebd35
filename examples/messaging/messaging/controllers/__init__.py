"""The use cases. They emit events to the bus, and use neither the outbox nor the broker."""
