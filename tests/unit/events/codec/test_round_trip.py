"""Any type that the codec takes gives back any value that it takes: equal, and of the same types.

The strategies make a type and the values of it together.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import make_dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal, NewType, TypeAlias, Union
from uuid import UUID

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from typing_extensions import TypeAliasType

from postroom.events.codec import Unfit, codec_for, same
from tests.unit.events.jsonb import as_jsonb

pytestmark = pytest.mark.no_cover  # others cover the same, for less time

Values = st.SearchStrategy[Any]
Typed: TypeAlias = tuple[Any, Values]
Types: TypeAlias = st.SearchStrategy[Typed]

patient = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
integers = st.integers() | st.integers(-(10**40), 10**40)
floats = st.floats(allow_nan=False, allow_infinity=False)
durations = st.timedeltas()
offsets = st.builds(
    timezone,
    st.timedeltas(timedelta(hours=-23, minutes=-59), timedelta(hours=23, minutes=59)),
) | st.just(timezone.utc)  # noqa: UP017  the object that is meant
moments = st.datetimes(timezones=st.none() | offsets)

SCALARS: dict[Any, Values] = {
    type(None): st.none(),
    bool: st.booleans(),
    int: integers,
    float: floats,
    str: texts,
    Decimal: st.decimals(allow_nan=False, allow_infinity=False),
    UUID: st.uuids(),
    date: st.dates(),
    time: st.times(timezones=st.none() | offsets),
    datetime: moments,
    timedelta: durations,
    bytes: st.binary(max_size=8),
}
scalars = st.sampled_from(list(SCALARS.items()))


@st.composite
def enums(draw: st.DrawFn) -> Typed:
    """An enum of any kind, with values of one type, or of several that JSON can tell apart."""
    kind, values = draw(
        st.sampled_from(
            [
                (Enum, st.one_of(*SCALARS.values())),
                (Enum, st.tuples(integers, st.one_of(*SCALARS.values()))),
                (Enum, floats),
                (IntEnum, integers),
                (StrEnum, texts),
            ]
        )
    )
    members = draw(st.lists(values, min_size=1, max_size=4))
    cls: Any = _made(kind, [(f"M{number}", value) for number, value in enumerate(members)])
    assume(_is_fit(cls))
    return cls, st.sampled_from(list(cls))


@st.composite
def flags(draw: st.DrawFn) -> Typed:
    """A Flag or IntFlag; its values are combinations."""
    kind = draw(st.sampled_from([Flag, IntFlag]))
    cls: Any = _made(kind, [f"F{number}" for number in range(draw(st.integers(1, 5)))])
    combined = st.lists(st.sampled_from(list(cls))).map(lambda some: reduce(or_, some, cls(0)))
    return cls, combined | combined.map(lambda some: ~some)


@st.composite
def literals(draw: st.DrawFn) -> Typed:
    values = st.one_of(texts, integers, st.booleans(), st.none(), st.binary(max_size=4))
    chosen = draw(st.lists(values, min_size=1, max_size=4))
    tp: Any = Literal.__getitem__(tuple(chosen))
    assume(_is_fit(tp))
    return tp, st.sampled_from(chosen)


@st.composite
def wrapped(draw: st.DrawFn, inner: Types) -> Typed:
    tp, values = draw(inner)
    names = [NewType("Drawn", tp), Annotated[tp, "a note"], TypeAliasType("Drawn", tp)]
    return draw(st.sampled_from(names)), values


@st.composite
def tuples(draw: st.DrawFn, inner: Types) -> Typed:
    (tp, values), (other, others) = draw(inner), draw(inner)
    made: list[Typed] = [
        (of(tuple, tp, ...), st.lists(values, max_size=3).map(tuple)),
        (of(tuple, tp, other), st.tuples(values, others)),
        (tuple[()], st.just(())),
    ]
    return draw(st.sampled_from(made))


@st.composite
def mutables(draw: st.DrawFn, inner: Types) -> Typed:
    tp, values = draw(inner)
    made: list[Typed] = [
        (of(list, tp), st.lists(values, max_size=3)),
        (of(dict, str, tp), st.dictionaries(texts, values, max_size=3)),
    ]
    return draw(st.sampled_from(made))


@st.composite
def keyed(draw: st.DrawFn, keys: Types) -> Typed:
    """What needs values that can be looked up."""
    (tp, values), (other, others) = draw(keys), draw(keys)
    made: list[Typed] = [
        (of(frozenset, tp), st.frozensets(values, max_size=3)),
        (of(set, tp), st.sets(values, max_size=3)),
        (of(dict, tp, other), st.dictionaries(values, others, max_size=3)),
        (of(Mapping, tp, other), st.dictionaries(values, others, max_size=3)),
    ]
    return draw(st.sampled_from(made))


@st.composite
def unions(draw: st.DrawFn, inner: Types) -> Typed:
    """Arms that look different in JSON."""
    arms: list[Typed] = []
    taken: frozenset[type] = frozenset()
    for arm in draw(st.lists(inner, min_size=2, max_size=4)):
        shapes = codec_for(arm[0]).shapes
        if not shapes & taken:
            arms, taken = [*arms, arm], taken | shapes
    return either(*(tp for tp, _ in arms)), st.one_of(*(values for _, values in arms))


@st.composite
def optionals(draw: st.DrawFn, inner: Types) -> Typed:
    tp, values = draw(inner)
    assume(type(None) not in codec_for(tp).shapes)
    return either(tp, None), values | st.none()


@st.composite
def dataclasses(draw: st.DrawFn, inner: Types, frozen: bool = False) -> Typed:
    typed = draw(st.lists(inner, max_size=4))
    fields = {f"the_field_{number}": each for number, each in enumerate(typed)}
    cls: Any = make_dataclass(
        "Drawn",
        [(name, tp) for name, (tp, _) in fields.items()],
        frozen=frozen or draw(st.booleans()),
        slots=draw(st.booleans()),
        kw_only=draw(st.booleans()),
    )
    values = {name: values for name, (_, values) in fields.items()}
    return cls, st.fixed_dictionaries(values).map(lambda drawn: cls(**drawn))


@st.composite
def tagged(draw: st.DrawFn, inner: Types) -> Typed:
    """A union of dataclasses that a tag tells apart."""
    arms = []
    for tag in draw(st.lists(texts | st.booleans() | integers, min_size=2, max_size=3)):
        tp, values = draw(inner)
        cls: Any = make_dataclass("Drawn", [("kind", Literal[tag]), ("held", tp)], frozen=True)
        arms.append((cls, st.builds(cls, st.just(tag), values)))
    union = either(*(cls for cls, _ in arms))
    assume(_is_fit(union))
    return union, st.one_of(*(values for _, values in arms))


def keys_of(depth: int) -> Types:
    """Types with values that can be looked up in a dict."""
    return _drawn_keys(depth) if depth else st.one_of(scalars, enums(), flags(), literals())


@st.composite
def _drawn_keys(draw: st.DrawFn, depth: int) -> Typed:
    inner = keys_of(depth - 1)
    made = (inner, tuples(inner), unions(inner), optionals(inner), dataclasses(inner, frozen=True))
    drawn: Typed = draw(draw(st.sampled_from(made)))
    return drawn


def types_of(depth: int) -> Types:
    return _drawn_types(depth) if depth else st.one_of(keys_of(0), keyed(keys_of(1)))


@st.composite
def _drawn_types(draw: st.DrawFn, depth: int) -> Typed:
    inner = types_of(depth - 1)
    nested = (tuples, mutables, wrapped, unions, optionals, dataclasses, tagged)
    drawn: Typed = draw(draw(st.sampled_from([inner, *(make(inner) for make in nested)])))
    return drawn


@pytest.mark.requirement("A7")
@patient
@given(st.data(), dataclasses(types_of(2)), st.sampled_from(["snake", "camel"]))
def test_every_event_comes_back_equal_and_of_the_same_types(
    data: st.DataObject, typed: Typed, case: Any
) -> None:
    tp, values = typed
    codec = codec_for(tp, case=case)
    value = data.draw(values)
    text = _capture(codec.encode, value)
    for stored in (json.loads(text), as_jsonb(json.loads(text))):
        back = codec.decode(stored)
        assert same(back, value)
        assert back == value


@pytest.mark.requirement("A7")
@patient
@given(st.data(), st.sampled_from([list, set, frozenset]))
def test_times_of_any_zone_come_back_with_their_wall_clock_and_offset(
    data: st.DataObject, kind: Any
) -> None:
    # `==` is of no use here: in the hour that a zone repeats, Python says that no other zone's time
    # is equal (PEP 495), not even the one with the same wall clock and the same offset.
    moments = st.datetimes(timezones=st.timezones(), allow_imaginary=True)
    value = kind(data.draw(st.lists(moments, max_size=5)))
    codec = codec_for(kind[datetime])
    assert same(codec.decode(json.loads(_capture(codec.encode, value))), value)


@pytest.mark.requirement("A7")
@patient
@given(
    st.recursive(
        st.none() | st.booleans() | integers | floats | texts,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    )
)
def test_what_json_can_hold_comes_back_without_a_type(value: Any) -> None:
    codec = codec_for(Any)
    back = codec.decode(as_jsonb(json.loads(_capture(codec.encode, value))))
    assert same(back, value)


def _capture(encode: Callable[[Any], Any], value: Any) -> str:
    try:
        return json.dumps(encode(value), allow_nan=False)
    except Unfit as unfit:
        refused = ("gives back as an int", "equal when they come back")
        assume(not unfit.problem.endswith(refused))
        raise


def of(generic: Any, *arguments: Any) -> Any:
    """A generic type that is made at run time."""
    return generic[arguments if len(arguments) > 1 else arguments[0]]


def either(*arms: Any) -> Any:
    """A union that is made at run time."""
    return Union.__getitem__(arms)


def _made(kind: Any, members: list[Any]) -> Any:
    return kind("Drawn", members)


def _is_fit(tp: Any) -> bool:
    try:
        return bool(codec_for(tp))
    except Unfit as unfit:
        if "look the same" in unfit.problem or "is ambiguous" in unfit.problem:
            return False
        raise
