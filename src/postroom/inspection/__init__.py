"""What operators see: the outbox, its records, keys, failures and workers; read only."""

from postroom.inspection.activity import Activity, ActivityKind, Happening
from postroom.inspection.details import AttemptNote, RecordDetail
from postroom.inspection.event_types import EventType
from postroom.inspection.failures import FailureGroup, Failures
from postroom.inspection.inspector import Inspector
from postroom.inspection.keys import BlockedKey, BlockedKeysPage, KeyReport
from postroom.inspection.listing import PENDING, RecordFilter, RecordPage
from postroom.inspection.overview import Overview, TypeCounts
from postroom.inspection.pauses import Change, Pause
from postroom.inspection.records import RecordState, RecordSummary
from postroom.inspection.waiting import Wait, WaitReason
from postroom.inspection.wording import as_json, counted, duration, key_text, parse_key
from postroom.inspection.workers import (
    InFlight,
    Report,
    ReportedOutage,
    ReportedRoute,
    Worker,
    WorkerState,
)

__all__ = [
    "PENDING",
    "Activity",
    "ActivityKind",
    "AttemptNote",
    "BlockedKey",
    "BlockedKeysPage",
    "Change",
    "EventType",
    "FailureGroup",
    "Failures",
    "Happening",
    "InFlight",
    "Inspector",
    "KeyReport",
    "Overview",
    "Pause",
    "RecordDetail",
    "RecordFilter",
    "RecordPage",
    "RecordState",
    "RecordSummary",
    "Report",
    "ReportedOutage",
    "ReportedRoute",
    "TypeCounts",
    "Wait",
    "WaitReason",
    "Worker",
    "WorkerState",
    "as_json",
    "counted",
    "duration",
    "key_text",
    "parse_key",
]
