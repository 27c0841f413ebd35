"""The outbox in a browser: mounted in an application, or served by `postroom console`."""

from postroom.console.app import console

__all__ = ["console"]
