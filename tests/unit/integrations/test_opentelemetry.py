"""The trace context in a record's headers."""

from typing import Any

import pytest

from postroom.integrations.opentelemetry.context import sampled_out, span_in, stored_context

pytestmark = pytest.mark.requirement("E8")

IDS = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"


@pytest.mark.parametrize("flags", ["00", "02", "fe"])
def test_a_trace_whose_flags_say_that_it_is_not_recorded_is_sampled_out(flags: str) -> None:
    assert sampled_out({"traceparent": f"00-{IDS}-{flags}"})


@pytest.mark.parametrize("flags", ["01", "03", "ff"])
def test_a_trace_that_is_recorded_is_not_sampled_out(flags: str) -> None:
    assert not sampled_out({"traceparent": f"00-{IDS}-{flags}"})


@pytest.mark.parametrize("value", [None, 5, "", "00", ["00"], f"00-{IDS}-0", f"00-{IDS}-00-more"])
def test_what_is_no_context_is_neither_sampled_out_nor_a_span(value: Any) -> None:
    headers = {"traceparent": value}
    assert not sampled_out(headers)
    assert span_in(stored_context(headers)) is None
