"""The command line: `postroom`. Needs the extra `cli`."""

import sys


def main() -> None:
    """Run the command that the process was started with."""
    try:
        from postroom.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "click"):
            raise
        print("postroom: the command line needs pip install 'postroom[cli]'.", file=sys.stderr)
        sys.exit(2)
    app()
