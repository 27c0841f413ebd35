"""Refuses an event class where it is defined, if it has a field that can never be kept."""

import inspect
import sys
from collections.abc import Iterator
from dataclasses import KW_ONLY, InitVar, is_dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, get_origin, get_type_hints

from postroom.errors import EventDefinitionError
from postroom.events.codec import Unfit, Unresolved, codec_for
from postroom.events.options import EventOptions


def check_definition(event_class: type) -> None:
    """Raise EventDefinitionError for a field of a type that has no codec.

    This is before @dataclass makes the fields. What an annotation names may come later in the
    module, and a generic class leaves it to its subclasses: the first use of the class checks all.
    """
    if any(getattr(base, "__parameters__", ()) for base in _written_bases(event_class)):
        return
    case = EventOptions.of(event_class).case
    for name, tp in _field_types(event_class):
        try:
            codec_for(tp, case=case)
        except (Unresolved, NameError):  # the second is of `type X = …`, which looks when asked
            continue
        except Unfit as unfit:
            unfit.path = (name, *unfit.path)
            raise EventDefinitionError(
                f"{event_class.__qualname__} cannot be an event: field `{unfit.where}`"
                f" {unfit.problem}. {unfit.remedy}"
            ) from unfit


def _written_bases(event_class: type) -> tuple[Any, ...]:
    bases: tuple[Any, ...] = event_class.__dict__.get("__orig_bases__", ())
    return bases


def _field_types(event_class: type) -> Iterator[tuple[str, Any]]:
    """Give the fields whose types are known by now, those of base classes included."""
    annotations: dict[str, tuple[Any, type]] = {}
    for owner in reversed(event_class.__mro__):
        if owner is event_class or is_dataclass(owner):
            for name, annotation in inspect.get_annotations(owner).items():
                annotations[name] = annotation, owner
    for name, (annotation, owner) in annotations.items():
        tp = _resolved(annotation, owner)
        if not (tp in (ClassVar, KW_ONLY, InitVar) or isinstance(tp, InitVar)):
            yield name, tp


def _resolved(annotation: Any, owner: type) -> Any:
    """Evaluate an annotation; give ClassVar for one that is none of a field, or means nothing yet.

    Of the names in the class, only classes count: @dataclass takes defaults away that hide a type.
    """
    names = vars(sys.modules.get(owner.__module__, SimpleNamespace()))
    nested = {name: value for name, value in vars(owner).items() if isinstance(value, type)}
    stand_in = SimpleNamespace(__annotations__={"it": annotation})
    try:
        tp = get_type_hints(stand_in, names, nested)["it"]
    except Exception:
        return ClassVar
    return ClassVar if get_origin(tp) is ClassVar else tp
