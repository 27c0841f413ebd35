"""Positions in a form: what is written is read, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.console.positions import MOST, position_of, read_positions, write_positions


@given(st.sets(st.integers(min_value=1, max_value=10**18 - 1)))
def test_what_is_written_is_read(positions: set[int]) -> None:
    assert read_positions(write_positions(positions)) == positions


def test_neighbours_are_written_as_a_range() -> None:
    assert write_positions([8, 1, 2, 3, 5, 6]) == "1-3.5-6.8"
    assert len(write_positions(range(1, MOST + 1))) < 10


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "a", "-1", "1--2", "1-2-3", "1,2", "²", "1.x", " 1", "9" * 19, "0x1", "+1"),
        *("1-999999999999", f"1-{MOST}.{MOST + 5}", f"5-{MOST + 5}"),
    ],
)  # fmt: skip
def test_anything_else_names_no_record(text: str) -> None:
    assert read_positions(text) == set()


def test_as_many_as_a_form_may_change_can_be_read() -> None:
    assert len(read_positions(f"1-{MOST}")) == MOST


def test_a_position_is_a_number_of_ascii_digits() -> None:
    assert position_of("17") == 17
    assert [position_of(each) for each in (None, "", "²", "-1", "1" * 19)] == [None] * 5
