"""Runs several commands of Alembic for an example in one process: each takes a second to start."""

import sys

from alembic.config import main

if __name__ == "__main__":
    example, *commands = sys.argv[1:]
    for words in commands:
        main(["-c", f"examples/{example}/alembic.ini", *words.split()])
