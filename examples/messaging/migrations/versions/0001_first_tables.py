"""The first tables: what is sent, and the outbox."""

import sqlalchemy as sa
from alembic import op
from postroom.integrations.alembic import drop_outbox, upgrade_outbox

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

CATALOGUE = ("channels", "templates", "contact_groups")
MESSAGES = ("group_messages", "scheduled_messages", "deliveries")  # they refer to the others


def upgrade() -> None:
    _create("channels", _text("name"), _text("kind"))
    _create("templates", _text("name"), _text("body"))
    _create("contact_groups", _text("name"), _list("contacts"))
    _create(
        "group_messages",
        *_references("channel_id", "template_id"),
        sa.Column("status", sa.String(20), nullable=False),
        _list("contact_group_ids"),
        sa.Column("total_recipients", sa.Integer, nullable=False),
        sa.Column("scheduled_at", sa.DateTime(timezone=True)),
    )
    _create(
        "scheduled_messages",
        *_references("channel_id", "template_id"),
        _text("send_type"),
        sa.Column("recipient", sa.Text),
        _list("contact_group_ids"),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("scheduled_at", sa.DateTime(timezone=True), nullable=False),
        _text("timezone"),
        sa.Column("is_recurring", sa.Boolean, nullable=False),
        sa.Column("recurrence_rule", sa.Text),
        sa.Column("recurrence_end_at", sa.DateTime(timezone=True)),
        sa.Column("next_trigger_at", sa.DateTime(timezone=True)),
    )
    _create(
        "deliveries",
        *_references("channel_id", "template_id"),
        _text("message_type"),
        sa.Column("message_id", sa.Uuid, nullable=False),
        _text("recipient"),
    )
    op.create_index("ix_deliveries_message_id", "deliveries", ["message_id"])
    upgrade_outbox("outbox_events")  # with the inbox of the consumer


def downgrade() -> None:
    drop_outbox("outbox_events")
    for table in (*MESSAGES, *CATALOGUE):
        op.drop_table(table)


def _create(table: str, *columns: sa.schema.SchemaItem) -> None:
    op.create_table(
        table,
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("account_id", sa.Uuid, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        *columns,
    )
    op.create_index(
        f"ix_{table}_account_id_created_at_id", table, ["account_id", "created_at", "id"]
    )


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False)


def _list(name: str) -> sa.Column[list[str]]:
    return sa.Column(name, sa.JSON, nullable=False)


def _references(*names: str) -> list[sa.schema.SchemaItem]:
    columns = [sa.Column(name, sa.Uuid, nullable=False) for name in names]
    keys = [sa.ForeignKeyConstraint([name], [f"{name.removesuffix('_id')}s.id"]) for name in names]
    return [*columns, *keys]
