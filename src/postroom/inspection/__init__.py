"""What operators see: the outbox, its records, keys, failures and workers; read only."""

from postroom.inspection.activity import Activity, ActivityKind, Happening
from postroom.inspection.details import AttemptNote, RecordDetail
from postroom.inspection.event_types import EventType
from postroom.inspection.failures import FailureGroup, Failures
from postroom.inspection.inspector import Inspector
from postroom.inspection.keys import BlockedKey, BlockedKeysPage, KeyReport
from postroom.inspection.latency import Latency
from postroom.inspection.listing import PENDING, RecordFilter, RecordPage
from postroom.inspection.overview import Overview, TypeCounts
from postroom.inspection.pauses import Change, Pause
from postroom.inspection.publishers import PublisherState
from postroom.inspection.records import RecordName, RecordState, RecordSummary
from postroom.inspection.waiting import Wait, WaitReason
from postroom.inspection.wording import (
    as_json,
    counted,
    duration,
    key_text,
    parse_age,
    parse_key,
    parse_time,
)
from postroom.inspection.workers import (
    InFlight,
    Report,
    ReportedOutage,
    ReportedRoute,
    Worker,
    WorkerState,
    drain_effect,
    short_names,
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
    "Latency",
    "Overview",
    "Pause",
    "PublisherState",
    "RecordDetail",
    "RecordFilter",
    "RecordName",
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
    "drain_effect",
    "duration",
    "key_text",
    "parse_age",
    "parse_key",
    "parse_time",
    "short_names",
]
