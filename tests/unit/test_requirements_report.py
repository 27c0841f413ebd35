"""What `make requirements` accepts and complains about."""

from tests.requirements_report import Proof, find_problems, format_table, read_requirements

PAGE = """
## A
- [x] **A1** A table.
  Its second line.
- [ ] **A2** A mapping.
"""


def test_ids_and_ticks_are_read_from_the_page() -> None:
    assert read_requirements(PAGE) == {"A1": True, "A2": False}


def test_a_done_id_with_a_passing_test_is_fine() -> None:
    assert find_problems({"A1": True, "A2": False}, {"A1": Proof(passing={"test_table"})}) == []


def test_a_done_id_without_a_passing_test_is_a_problem() -> None:
    assert find_problems({"A1": True}, {}) == ["A1 is done, and no passing test names it"]


def test_a_failing_test_of_a_done_id_is_a_problem() -> None:
    proof = Proof(passing={"test_table"}, failing={"test_index"})
    assert find_problems({"A1": True}, {"A1": proof}) == ["A1 is done, and a test of it fails"]


def test_an_unknown_id_is_a_problem() -> None:
    problems = find_problems({}, {"Z9": Proof(passing={"test_table"})})
    assert problems == ["Z9 is not in docs/requirements.md, but named by test_table"]


def test_the_table_names_the_tests_of_each_id() -> None:
    proofs = {"A1": Proof(passing={"test_table"}, failing={"test_index"})}
    assert format_table({"A1": True, "A2": False}, proofs) == [
        "[x] A1   1 passing, 1 failing",
        "           test_table",
        "    FAILED test_index",
        "[ ] A2   0 passing, 0 failing",
    ]
