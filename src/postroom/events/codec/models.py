"""Pydantic models: written by pydantic, read back at capture and compared."""

import json
from dataclasses import replace
from typing import Any

from postroom.events.codec.contract import ALL_SHAPES, Codec, CodecOf, as_stored, typed
from postroom.events.codec.proof import prove
from postroom.events.codec.unfit import Unfit


def model(tp: Any, codec_of: CodecOf) -> Codec | None:
    """The codec of a pydantic model, known by its methods: pydantic is not imported."""
    if not (isinstance(tp, type) and hasattr(tp, "model_dump") and hasattr(tp, "model_validate")):
        return None
    is_root_model = getattr(tp, "__pydantic_root_model__", False)
    re_cased = tp is codec_of.root and not is_root_model
    names = codec_of.names(tp, getattr(tp, "model_fields", ())) if re_cased else {}
    fields = {name: field for field, name in names.items()}

    def write(value: Any) -> Any:
        dump = _dump(value)
        stored = _as_stored(dump)
        codec_of(Any).encode(stored)
        prove(value, _load(tp, stored))
        return _renamed(dump, names)

    def read(document: Any) -> Any:
        return _load(tp, _renamed(document, fields))

    codec = typed(tp, dict, write, read)
    return replace(codec, decode=read, shapes=ALL_SHAPES) if is_root_model else codec


def _dump(value: Any) -> Any:
    try:
        return value.model_dump(mode="json", by_alias=False, round_trip=True, warnings="error")
    except Exception as error:
        remedy = "Pass a value of the field's type, and use types that pydantic writes as JSON."
        raise Unfit(f"cannot be written by pydantic: {error}", remedy) from error


def _load(cls: Any, document: Any) -> Any:
    """Read in pydantic's JSON mode: only there does a strict model take a str for a UUID."""
    try:
        return cls.model_validate_json(json.dumps(document), by_alias=False, by_name=True)
    except Exception as error:
        first: dict[str, Any] = next(iter(getattr(error, "errors", list)()), {})
        problem = f"cannot be read by pydantic: {first.get('msg', error)}"
        remedy = "Give it a type that pydantic reads back, or correct the payload."
        raise Unfit(problem, remedy, tuple(map(str, first.get("loc", ())[:1]))) from error


def _as_stored(dump: Any) -> Any:
    """What JSONB gives back: it writes 1e22 as an integer, and keeps no order of keys."""
    return json.loads(
        json.dumps(dump),
        parse_float=lambda text: as_stored(float(text)),
        object_pairs_hook=lambda pairs: dict(reversed(pairs)),
    )


def _renamed(document: Any, names: dict[str, str]) -> Any:
    if not names or not isinstance(document, dict):
        return document
    renamed = {names.get(key, key): value for key, value in document.items()}
    if len(renamed) < len(document):
        raise Unfit("has two fields with one name in JSON", "Rename one of them.")
    return renamed
