"""The generated blocks of the pages of reference; `make lint` compares the pages themselves."""

import pytest

from scripts.reference.blocks import Hand, PageError, Table, paragraph, rewritten

PAGE = """# Settings

<!-- generated: relay -->

| setting | default | meaning |
|---|---|---|
| `lease` | `5` | how long \\| by hand |
| `gone` | `1` | no more |

<!-- end -->

Prose.
"""


def test_what_the_code_knows_is_written_anew_and_the_rest_stays() -> None:
    rows = [("`batch`", "`100`", Hand("a draft")), ("`grace`", "`30`", Hand())]
    table = Table(("setting", "default", "meaning"), [*rows, ("`lease`", "`10`", Hand())])
    written = rewritten(PAGE, {"relay": table})
    assert "| `batch` | `100` | a draft |\n| `grace` | `30` | (to be written) |\n" in written
    assert "| `lease` | `10` | how long \\| by hand |\n\n<!-- end -->\n\nProse.\n" in written
    assert "gone" not in written
    assert rewritten(written, {"relay": table}) == written


def test_rows_can_keep_the_order_of_the_page() -> None:
    rows = [("`batch`", "a"), ("`gone`", "b"), ("`lease`", "c")]
    written = Table(("setting", "x"), rows, in_page_order=True)(PAGE)
    places = [written.index(name) for name in ("lease", "gone", "batch")]
    assert places == sorted(places)


def test_a_paragraph_by_hand_needs_every_name() -> None:
    assert (
        paragraph(["pending", "ready"])("JSON: `ready`.")
        == "JSON: `ready`. `pending` (to be written)"
    )


@pytest.mark.parametrize("names", [["relay", "inbox"], []], ids=["lacking", "unknown"])
def test_a_page_has_each_block_of_the_code_and_no_other(names: list[str]) -> None:
    with pytest.raises(PageError):
        rewritten(PAGE, dict.fromkeys(names, str))
