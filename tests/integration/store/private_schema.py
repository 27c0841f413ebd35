"""A corner of the shared test database: a schema that is a test's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from sqlalchemy import create_engine, make_url
from sqlalchemy.pool import NullPool
from sqlalchemy.schema import CreateSchema, DropSchema


@contextmanager
def private_schema(url: str) -> Iterator[str]:
    """Make a schema, and give a URL whose connections see nothing but that; drop it after."""
    name = f"test_{uuid4().hex[:12]}"
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(CreateSchema(name))
    path = make_url(url).update_query_dict({"options": f"-csearch_path={name}"})
    try:
        yield path.render_as_string(hide_password=False)
    finally:
        with engine.begin() as connection:
            connection.execute(DropSchema(name, cascade=True))
