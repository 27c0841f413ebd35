"""Runs several commands of Alembic in one process, for each takes a second to start."""

import sys

from alembic.config import main

from tests.support.command import ROOT

if __name__ == "__main__":
    for words in sys.argv[1:]:
        main(["-c", str(ROOT / "examples/messaging/alembic.ini"), *words.split()])
