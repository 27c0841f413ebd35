"""What postroom uses of SQLAlchemy beyond its documentation: there in each version, or refused."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
import sqlalchemy
from sqlalchemy import Column, Integer, MetaData, create_engine, event
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapper, Session

from postroom.capture.commit_order import insert_last
from postroom.capture.targets import CapturingSession, Interceptor, sweep_last
from postroom.database.database import Database
from postroom.errors import ConfigurationError
from postroom.tables.tables import define_tables

pytestmark = pytest.mark.requirement("E14")


def test_a_mapper_has_the_key_that_a_flush_sorts_by() -> None:
    class Base(DeclarativeBase):
        pass

    class Order(Base):
        __tablename__ = "orders"
        id = Column(Integer, primary_key=True)

    mapper: Mapper[Any] = Order.__mapper__
    assert mapper._sort_key == f"{Order.__module__}.Order"


def test_a_version_without_that_key_is_refused_with_the_versions_that_have_it() -> None:
    mapper = cast("Mapper[Any]", SimpleNamespace())
    with pytest.raises(ConfigurationError) as raised:
        insert_last(mapper)
    assert f"SQLAlchemy {sqlalchemy.__version__}" in str(raised.value)
    assert "SQLAlchemy>=2.0.31,<2.2" in str(raised.value)


def test_a_commit_looks_last_whether_there_is_something_to_flush() -> None:
    looked: list[str] = []

    class Looking(Session):
        def _is_clean(self) -> bool:
            looked.append("looked")
            return super()._is_clean()

    session = Looking()
    event.listen(session, "before_commit", lambda _: looked.append("before_commit"))
    session.commit()
    assert looked == ["before_commit", "looked"]


def test_a_version_whose_sessions_do_not_look_is_refused() -> None:
    target = cast("type[Session]", SimpleNamespace())
    with pytest.raises(ConfigurationError, match=r"SQLAlchemy>=2\.0\.31,<2\.2"):
        sweep_last(target, cast("Interceptor", None))


def test_a_dialect_knows_the_isolation_that_its_engine_was_created_with() -> None:
    engine = create_engine("postgresql+psycopg://", isolation_level="AUTOCOMMIT")
    assert engine.dialect._on_connect_isolation_level == "AUTOCOMMIT"
    assert create_engine("postgresql+psycopg://").dialect._on_connect_isolation_level is None


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
def test_a_percent_sign_in_a_name_is_written_once_whatever_the_driver_wants(driver: str) -> None:
    tables = define_tables(MetaData(), table="5% off", schema=None)
    database = Database(create_async_engine(f"postgresql+{driver}://"), tables)
    assert database.records == '"5% off"'


def test_a_session_has_merge_all_only_if_sqlalchemy_has_it() -> None:
    assert hasattr(CapturingSession, "merge_all") == hasattr(Session, "merge_all")
