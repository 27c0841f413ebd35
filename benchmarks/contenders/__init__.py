"""The contenders, each a worker process of its own: `python -m benchmarks.contenders.NAME`."""
