"""A small application with Alembic migrations."""
