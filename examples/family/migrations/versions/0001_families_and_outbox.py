"""Creates families, members, invitations and the outbox, in the schema `auth`."""

import sqlalchemy as sa
from alembic import op
from postroom.integrations.alembic import drop_outbox, upgrade_outbox

revision = "0001"
down_revision = None

SCHEMA = "auth"


def upgrade() -> None:
    op.execute(f"CREATE SCHEMA {SCHEMA}")
    op.create_table(
        "families",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_families"),
        schema=SCHEMA,
    )
    op.create_table(
        "family_members",
        sa.Column("family_id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("email", sa.String(254), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.PrimaryKeyConstraint("family_id", "user_id", name="pk_family_members"),
        sa.ForeignKeyConstraint(
            ["family_id"], ["auth.families.id"], name="fk_family_members_family_id"
        ),
        schema=SCHEMA,
    )
    _create_invitations()
    upgrade_outbox("outbox_events", schema=SCHEMA)


def _create_invitations() -> None:
    op.create_table(
        "family_member_invitations",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("family_id", sa.Uuid(), nullable=False),
        sa.Column("email", sa.String(254), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("invited_by_user_id", sa.Uuid(), nullable=False),
        sa.Column("token_hash", sa.String(64), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("sent_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("resends", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_family_member_invitations"),
        sa.ForeignKeyConstraint(
            ["family_id"], ["auth.families.id"], name="fk_family_member_invitations_family_id"
        ),
        sa.UniqueConstraint("token_hash", name="uq_family_member_invitations_token_hash"),
        schema=SCHEMA,
    )
    op.create_index(
        "ix_family_member_invitations_family_id",
        "family_member_invitations",
        ["family_id"],
        schema=SCHEMA,
    )
    op.create_index(
        "ix_family_member_invitations_email",
        "family_member_invitations",
        ["email"],
        schema=SCHEMA,
    )
    op.create_index(
        "uq_family_member_invitations_pending",
        "family_member_invitations",
        ["family_id", "email"],
        unique=True,
        schema=SCHEMA,
        postgresql_where=sa.text("status = 'Pending'"),
    )


def downgrade() -> None:
    drop_outbox("outbox_events", schema=SCHEMA)
    op.drop_table("family_member_invitations", schema=SCHEMA)
    op.drop_table("family_members", schema=SCHEMA)
    op.drop_table("families", schema=SCHEMA)
    op.execute(f"DROP SCHEMA {SCHEMA}")
