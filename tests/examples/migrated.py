"""A PostgreSQL database with the tables of an example, made by its own migrations."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import make_url

from tests.support.command import ROOT
from tests.support.postgres import temporary_database
from tests.support.program import run_program


def alembic(example: str, *commands: str, **environment: str) -> str:
    """Run commands of Alembic for an example; give what they printed, to wherever."""
    script = ["-m", "tests.examples.alembic_commands", example, *commands]
    done = run_program(script, folder=ROOT, environment=environment)
    assert done.code == 0, done.out + done.err
    return done.out + done.err


@contextmanager
def empty_database(example: str, *, template: str = "template0") -> Iterator[str]:
    """Create a database for an example, give its URL for asyncpg, drop it."""
    with temporary_database(example, template=template) as url:
        yield url.set(drivername="postgresql+asyncpg").render_as_string(hide_password=False)


class Template:
    """A database with all the tables of an example, which is only ever copied."""

    def __init__(self, example: str, url: str) -> None:
        self._example = example
        self._name = make_url(url).database or ""
        alembic(example, "upgrade head", DATABASE_URL=url)

    @contextmanager
    def copy(self) -> Iterator[str]:
        """Create a copy, give its URL for asyncpg, drop it."""
        with empty_database(self._example, template=self._name) as url:
            yield url


@contextmanager
def migrated_template(example: str) -> Iterator[Template]:
    """Migrate a database once for all copies: to migrate each takes a second."""
    with empty_database(example) as url:
        yield Template(example, url)
