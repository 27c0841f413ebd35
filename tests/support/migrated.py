"""A PostgreSQL database with the tables of an example, made by its own migrations."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from tests.support.command import ROOT
from tests.support.postgres import temporary_database
from tests.support.services import service_url


def alembic(example: str, *commands: str, **environment: str) -> str:
    """Run commands of Alembic for an example; give what they printed, to wherever."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.alembic_commands", example, *commands],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@contextmanager
def empty_database(example: str) -> Iterator[str]:
    """Create a database for an example, give its URL for asyncpg, drop it."""
    name = f"postroom_test_{example}_{uuid4().hex[:12]}"
    with temporary_database(service_url("POSTROOM_TEST_POSTGRES_URL"), name) as url:
        yield url.set(drivername="postgresql+asyncpg").render_as_string(hide_password=False)


@contextmanager
def migrated_database(example: str) -> Iterator[str]:
    """Create a database with all the tables of an example, give its URL for asyncpg, drop it."""
    with empty_database(example) as url:
        alembic(example, "upgrade head", DATABASE_URL=url)
        yield url
