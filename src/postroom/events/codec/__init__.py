"""Typed events as plain JSON, and back: exactly, or not at all."""

from postroom.events.codec.compiler import codec_for, plain_json
from postroom.events.codec.contract import Codec, Json
from postroom.events.codec.naming import Case, json_name
from postroom.events.codec.nesting import check_nesting
from postroom.events.codec.sameness import same
from postroom.events.codec.unfit import Unfit, Unresolved

__all__ = [
    "Case",
    "Codec",
    "Json",
    "Unfit",
    "Unresolved",
    "check_nesting",
    "codec_for",
    "json_name",
    "plain_json",
    "same",
]
