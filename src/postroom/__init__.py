"""The transactional outbox for Python: what you commit gets delivered.

The public names are those of `postroom.public`. They are imported when the first one is used, so
that `postroom --help` and shell completion do not wait for SQLAlchemy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str
    from postroom.public import *  # noqa: F403
    from postroom.public import __all__ as __all__
else:  # a type checker would take any name from a module with a `__getattr__`

    def __getattr__(name: str) -> object:
        """Import all public names when one of them is used that is not there yet."""
        if name == "__version__":
            return import_module("importlib.metadata").version("postroom")
        if name.startswith("__") and name != "__all__":
            raise AttributeError(name)
        public = import_module("postroom.public")
        names = {each: getattr(public, each) for each in ("__all__", *public.__all__)}
        if name not in names:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals().update(names)
        return names[name]

    def __dir__() -> list[str]:
        """Return the public names, for completion in an editor or a shell."""
        return [*import_module("postroom.public").__all__]
