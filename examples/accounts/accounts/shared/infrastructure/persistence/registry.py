"""The registry and the metadata of every table of the application."""

from sqlalchemy import MetaData
from sqlalchemy.orm import registry

NAMING_CONVENTION = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

mapper_registry = registry(metadata=MetaData(naming_convention=NAMING_CONVENTION))
