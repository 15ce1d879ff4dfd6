"""The tour of the architecture names files that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOUR = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_every_file_named_exists():
    walks = TOUR[
        TOUR.index("## A walk through `predict`") : TOUR.index("## Dependencies")
    ]
    named = {
        name
        for name in re.findall(r"`([\w/]+\.pyi?)`", walks)
        if "/" in name or not name.startswith("test_")
    }
    assert len(named) > 40
    roots = ("src/giantstep", "src/giantstep/problems/network", ".")
    missing = sorted(
        name
        for name in named
        if not any((ROOT / root / name).exists() for root in roots)
    )
    assert not missing
