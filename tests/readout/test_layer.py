"""The read-out stands below the families."""

from pathlib import Path

import giantstep.readout


def test_no_family_is_imported():
    for path in Path(giantstep.readout.__file__).parent.glob("*.py"):
        assert "giantstep.families" not in path.read_text(), path.name
