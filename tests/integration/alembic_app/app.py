"""An application with tables of its own beside an outbox, and the commands of Alembic."""

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import (
    Column,
    ForeignKey,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    create_engine,
    inspect,
)
from sqlalchemy.pool import NullPool

from postroom import Outbox, OutboxRecord
from postroom.tables.check import schema_drift


@dataclass(kw_only=True)
class App:
    """Migrations in a folder of their own; `options` are what env.py passes to configure()."""

    url: str
    versions: Path
    table: str = "outbox"
    schema: str | None = None
    convention: dict[str, str] | None = None
    metadata_schema: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        metadata = _tables_of_its_own(
            MetaData(naming_convention=self.convention, schema=self.metadata_schema)
        )
        self.tables = _outbox(metadata, table=self.table, schema=self.schema).tables
        self.engine = create_engine(self.url, poolclass=NullPool)
        self.sql = io.StringIO()
        self.config = Config(stdout=io.StringIO(), output_buffer=self.sql)
        self.config.set_main_option("script_location", str(Path(__file__).parent))
        self.config.set_main_option("path_separator", "newline")
        self.config.set_main_option("version_locations", str(self.versions))
        options = {"target_metadata": metadata, "include_name": self._is_ours, **self.options}
        self.config.attributes.update(url=self.url, options=options)

    @property
    def place(self) -> str | None:
        """The schema of the outbox."""
        return self.tables.records.schema

    def _is_ours(self, name: str | None, kind: str, _: object) -> bool:
        return kind != "schema" or name in {None, self.place}

    def autogenerate(self) -> Path:
        command.revision(self.config, "what is missing", autogenerate=True)
        return max(self.versions.glob("*.py"), key=lambda path: path.stat().st_mtime_ns)

    def upgrade(self, to: str = "head", *, sql: bool = False) -> None:
        command.upgrade(self.config, to, sql=sql)

    def downgrade(self, to: str = "base", *, sql: bool = False) -> None:
        command.downgrade(self.config, to, sql=sql)

    def check(self) -> None:
        """Raise what `alembic check` complains of."""
        command.check(self.config)

    def execute(self, script: str) -> None:
        with self.engine.begin() as connection:
            for statement in script.split(";"):
                connection.exec_driver_sql(statement)

    def drift(self) -> list[str]:
        with self.engine.connect() as connection:
            return schema_drift(connection, self.tables)

    def table_names(self) -> set[str]:
        """List the tables next to the outbox, and itself."""
        names = set(inspect(self.engine).get_table_names(schema=self.place))
        return names - {"alembic_version"}


def _outbox(metadata: MetaData, **names: Any) -> Outbox:
    class Record(OutboxRecord):
        """Of this application alone: a class is mapped once."""

    return Outbox(metadata, record=Record, **names)


def _tables_of_its_own(metadata: MetaData) -> MetaData:
    customers = Table(
        "customers",
        metadata,
        Column("id", Integer, primary_key=True),
        Column("name", Text, index=True, server_default="nobody"),
        UniqueConstraint("name"),
    )
    Table("orders", metadata, Column("customer", ForeignKey(customers.c.id), primary_key=True))
    return metadata
