"""The histogram that is cheap to fill counts as Prometheus wants it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postroom.integrations.metrics.distribution import SECONDS, Distribution


@given(st.lists(st.tuples(st.floats(0, 10_000), st.integers(1, 100))))
def test_a_bucket_holds_all_values_up_to_its_bound(values: list[tuple[float, int]]) -> None:
    distribution, together = Distribution(SECONDS), Distribution(SECONDS)
    for value, times in values:
        distribution.add(value, times)
    together.add_all(value for value, times in values for _ in range(times))
    assert together.buckets() == distribution.buckets()
    assert together.sum == pytest.approx(distribution.sum)
    bounds = [*SECONDS, float("inf")]
    expected = [sum(times for value, times in values if value <= bound) for bound in bounds]
    assert [count for _, count in distribution.buckets()] == expected
    assert [float(bound) for bound, _ in distribution.buckets()] == bounds
