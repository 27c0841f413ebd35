"""The HTTP interface: controller, flush, commit; the worker is woken by the commit itself."""
