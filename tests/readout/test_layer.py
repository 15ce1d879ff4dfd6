"""The read-out stands below the families."""

from pathlib import Path

import giantstep.core.readout


def test_no_family_is_imported():
    for path in Path(giantstep.core.readout.__file__).parent.glob("*.py"):
        assert "giantstep.problems" not in path.read_text(), path.name
