"""Proves at capture that a value comes back, for classes that are rebuilt by their own code."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, NoReturn

from postroom.events.codec.sameness import NOTHING, parts_of, same, unstored_of
from postroom.events.codec.unfit import Unfit, relocate, shown


def prove(value: Any, back: Any) -> None:
    """Raise `Unfit` with the innermost part that did not come back the same."""
    if same(value, back):
        return
    for name, part, other in _parts(value, back):
        if not same(part, other):
            try:
                prove(part, other)
            except Unfit as unfit:
                relocate(unfit, name)
    lost = unstored_of(back) if type(value) is type(back) else {}
    for name, part in unstored_of(value).items():
        if not same(part, lost.get(name, NOTHING)):
            problem = "is an attribute outside the fields of the class, so its value would be lost"
            raise Unfit(
                problem, "Make it a field or a property, or leave it at its default.", (name,)
            )
    _refuse(value, back)


def _refuse(value: Any, back: Any) -> NoReturn:
    if hasattr(value, "get_secret_value"):
        remedy = "Store an id instead, or give the field a field_serializer that reveals it."
        raise Unfit("is a secret, which pydantic writes as asterisks", remedy)
    if isinstance(value, OrderedDict) and dict(value) == back:
        raise Unfit("has an order, which JSONB does not keep", "Use dict, or a list of pairs.")
    before, after, kind = shown(value), shown(back), type(value).__name__
    change = f": {before} becomes {after}" if before != after else ""
    remedy = f"Annotate the field as {kind}, and have pydantic write and read it unchanged."
    raise Unfit(f"does not come back as it went in{change}", remedy)


def _parts(value: Any, back: Any) -> Iterator[tuple[str, Any, Any]]:
    """What two values of one type are made of, as far as they have the same parts."""
    if type(value) is not type(back):
        return
    if isinstance(value, list | tuple) and len(value) == len(back):
        for index, pair in enumerate(zip(value, back, strict=True)):
            yield f"[{index}]", *pair
    before, after = _named(value), _named(back)
    for name in before.keys() & after.keys():
        yield name if name.isidentifier() else f"[{name!r}]", before[name], after[name]


def _named(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return {key: part for key, part in value.items() if type(key) is str}
    return parts_of(value) or {}
