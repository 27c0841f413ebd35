"""Accounts, profiles and the outbox."""

import sqlalchemy as sa
from alembic import op
from postroom.integrations.alembic import drop_outbox, upgrade_outbox

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "accounts",
        sa.Column("account_id", sa.Uuid(), primary_key=True),
        sa.Column("email", sa.String(320), nullable=False, unique=True),
        sa.Column("password_hash", sa.String(255), nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
    )
    op.create_table(
        "profiles",
        sa.Column("account_id", sa.Uuid(), primary_key=True),
        sa.Column("display_name", sa.String(320), nullable=False),
    )
    upgrade_outbox("outbox")


def downgrade() -> None:
    drop_outbox("outbox")
    op.drop_table("profiles")
    op.drop_table("accounts")
