"""The page of exit codes has those of the command line."""

import signal

from postroom.cli.errors import BY_SIGNAL, Exit
from tests.docs.markdown import tables
from tests.docs.pages import ROOT

PAGE = ROOT / "docs/reference/exit-codes.md"


def test_the_exit_codes_are_those_of_the_code() -> None:
    [table] = [each for each in tables(PAGE) if each.columns[:2] == ("code", "name")]
    *codes, by_signal = table.rows
    assert [(row[0], row[1]) for row in codes] == [(str(int(each)), each.name) for each in Exit]
    assert by_signal[0] == f"{BY_SIGNAL} + n"
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        assert f"{BY_SIGNAL + each} " in by_signal[2]
