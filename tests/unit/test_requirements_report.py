"""What `make requirements` accepts and complains about."""

import pytest

from tests.requirements_report import Proof, find_problems, format_table, read_requirements

PAGE = """
## A
- [x] **A1** A table.
  Its second line.
- [ ] **A2** A mapping.
"""
FINE = Proof(passing={"test_table"})


def test_ids_and_ticks_are_read_from_the_page() -> None:
    assert read_requirements(PAGE) == {"A1": True, "A2": False}


def test_a_done_id_with_a_passing_test_is_fine() -> None:
    assert find_problems({"A1": True, "A2": False}, {"A1": FINE}) == []


@pytest.mark.parametrize(
    ("proofs", "problem"),
    [
        ({}, "A1 is done, and no passing test names it"),
        ({"A1": Proof(passing={"a"}, failing={"b"})}, "A1 is done, and a test of it fails"),
        ({"A1": FINE, "Z9": FINE}, "Z9 is not in docs/requirements.md, but named by test_table"),
    ],
    ids=["no passing test", "a failing test", "an unknown id"],
)
def test_what_contradicts_a_tick_is_a_problem(proofs: dict[str, Proof], problem: str) -> None:
    assert find_problems({"A1": True}, proofs) == [problem]


def test_the_table_names_the_tests_of_each_id() -> None:
    proofs = {"A1": Proof(passing={"test_table"}, failing={"test_index"})}
    assert format_table({"A1": True, "A2": False}, proofs) == [
        "[x] A1   1 passing, 1 failing",
        "           test_table",
        "    FAILED test_index",
        "[ ] A2   0 passing, 0 failing",
    ]
