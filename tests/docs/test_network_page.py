"""The table of what composes on the page of the network is what its parts say."""

from pathlib import Path

from giantstep.problems.network.composition import OPTIONS, all_pairs

PAGE = Path(__file__).parents[2] / "docs" / "network.md"


def rows():
    """Return the rows of the table: the pairs that are not exact after one step or
    after two.
    """
    pairs = [
        (one, two)
        for one, two in zip(all_pairs(1), all_pairs(2))
        if {one.verdict, two.verdict} != {"exact"}
    ]
    return [
        f"| {one.first}, {one.second} | {one.verdict} | {two.verdict} |"
        for one, two in pairs
    ]


def test_the_table_is_what_the_parts_say():
    """Write the rows that a failure shows into the page."""
    text = PAGE.read_text()
    section = text.partition("### What composes\n")[2].partition("\n### ")[0]
    assert [line for line in section.splitlines() if line.startswith("| ")][
        1:
    ] == rows()
    assert f"{len(OPTIONS)} options make {len(list(all_pairs(1)))} pairs" in section
