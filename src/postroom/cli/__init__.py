"""The command line: `postroom`. Needs the extra `cli`."""

import gc
import sys

FEW_COLLECTIONS = 50_000
"""New objects between two runs of the garbage collector: it has nothing to find in imports."""


def main() -> None:
    """Run the command that the process was started with."""
    gc.set_threshold(FEW_COLLECTIONS)
    try:
        from postroom.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "click"):
            raise
        print("postroom: the command line needs pip install 'postroom[cli]'.", file=sys.stderr)
        sys.exit(2)
    app()
