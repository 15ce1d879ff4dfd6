"""The tutorial's family, written to a package of its own, is known to the command line by its entry point."""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "own_family.md"


def tutorial():
    return "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.M | re.S))


def test_an_installed_family_is_found_by_its_entry_point(tmp_path):
    (tmp_path / "spiked_covariance.py").write_text(tutorial().partition("s = SpikedCovariance(")[0])
    information = tmp_path / "own-0.1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 0.1\n")
    (information / "entry_points.txt").write_text("[giantstep.families]\nspiked-covariance = spiked_covariance\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def giantstep(*words):
        command = [sys.executable, "-m", "giantstep", *words]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    new = giantstep("new", "spiked-covariance")
    assert new.returncode == 0, new.stderr
    (tmp_path / "S.toml").write_text(new.stdout)
    predicted = giantstep("predict", "S.toml", "--set", "snr=2", "--json")
    assert predicted.returncode == 0, predicted.stderr
    assert '"overlap"' in predicted.stdout
    sizes = ("--dim", "200", "--trials", "20", "--check", "--allow", "0.03")
    compared = giantstep("compare", "S.toml", "--set", "snr=2", *sizes)
    assert compared.returncode == 0, compared.stdout + compared.stderr
