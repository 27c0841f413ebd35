"""Makes one codec per type, once: the list of cases."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from postroom.events.codec.choices import enum, literal
from postroom.events.codec.classes import data_class, is_data_class
from postroom.events.codec.containers import container
from postroom.events.codec.contract import ALL_SHAPES, Codec
from postroom.events.codec.hints import plain, refusal
from postroom.events.codec.models import model
from postroom.events.codec.naming import Case, json_names
from postroom.events.codec.nesting import check_nesting
from postroom.events.codec.scalars import scalar
from postroom.events.codec.unfit import Unfit
from postroom.events.codec.unions import is_union, union

_CASES: Final = (scalar, enum, literal, union, container, model, data_class)
_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})


def codec_for(tp: Any, *, case: Case = "snake", rename: Mapping[str, str] = _NO_NAMES) -> Codec:
    """Give the codec of a type, or raise `Unfit` with the field that cannot be kept exactly.

    `case` is for the fields of every dataclass inside, `rename` for those of the class itself.
    """
    return _compiled(plain(tp), case, tuple(sorted(rename.items())))


def plain_json(document: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a document, down to its last part; raise `Unfit` if JSON would not give it back."""
    copy: dict[str, Any] = codec_for(dict[str, Any]).encode(document)
    check_nesting(copy)
    return copy


@lru_cache(maxsize=1024)
def _compiled(tp: Any, case: Case, rename: tuple[tuple[str, str], ...]) -> Codec:
    try:
        return _Compiler(tp, case, dict(rename))(tp)
    except RecursionError:
        raise Unfit("refers to itself without end", "Make it a dataclass.") from None


class _Compiler:
    """The codecs of one type and of all that it holds."""

    def __init__(self, root: Any, case: Case, rename: Mapping[str, str]) -> None:
        self.root, self._case, self._rename = root, case, rename
        self._made: dict[Any, Codec] = {}

    def __call__(self, tp: Any, /) -> Codec:
        tp = plain(tp)
        if not (is_data_class(tp) or is_union(tp)):
            return self._make(tp)
        if tp not in self._made:  # only these two can hold themselves
            self._made[tp] = self._promise(tp)
            self._made[tp] = self._make(tp)
        return self._made[tp]

    def names(self, cls: type, fields: Iterable[str], /) -> dict[str, str]:
        return json_names(fields, self._case, self._rename if cls is self.root else _NO_NAMES)

    def _make(self, tp: Any) -> Codec:
        for case in _CASES:
            if (codec := case(tp, self)) is not None:
                return codec
        raise refusal(tp)

    def _promise(self, tp: Any) -> Codec:
        """What the type's own parts see of it while it is being made."""
        one_class = is_data_class(tp)
        return Codec(
            lambda value: self._made[tp].encode(value),
            lambda json: self._made[tp].decode(json),
            frozenset((dict,)) if one_class else ALL_SHAPES,
            frozenset((tp,)) if one_class else frozenset(),
        )
