"""The chapters of the store's conformance suite."""

import pytest

_CHAPTERS = (
    "claiming",
    "cleaning",
    "leasing",
    "mending",
    "operating",
    "rubbish",
    "settling",
    "waiting",
)
pytest.register_assert_rewrite(*(f"{__name__}.{chapter}" for chapter in _CHAPTERS))
