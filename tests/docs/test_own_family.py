"""The tutorial's family is known to the command line: by the folder's
giantstep.toml, and by an entry point.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "own_family.md"


def blocks(language):
    return re.findall(
        rf"^```{language}\n(.*?)^```", PAGE.read_text(), flags=re.M | re.S
    )


@pytest.fixture
def giantstep(tmp_path):
    """Run a command in a folder that has the tutorial's file."""
    (tmp_path / "spiked_covariance.py").write_text("\n".join(blocks("python")))

    def run(*words):
        command = [sys.executable, "-m", "giantstep", *words]
        done = subprocess.run(
            command, cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_the_folder_knows_its_family(giantstep, tmp_path):
    (tmp_path / "giantstep.toml").write_text(blocks("toml")[0])
    (tmp_path / "S.toml").write_text(
        '[scenario]\nfamily = "spiked-covariance"\nsnr = 2\n'
    )
    assert "variance along the direction" in giantstep("describe", "spiked-covariance")
    giantstep(
        "compare",
        "S.toml",
        "--dim",
        "200",
        "--trials",
        "20",
        "--check",
        "--allow",
        "0.03",
    )


def test_an_installed_family_is_found_by_its_entry_point(giantstep, tmp_path):
    information = tmp_path / "own-0.1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: own\nVersion: 0.1\n"
    )
    (information / "entry_points.txt").write_text(
        "[giantstep.families]\nspiked-covariance = spiked_covariance\n"
    )
    (tmp_path / "S.toml").write_text(giantstep("new", "spiked-covariance"))
    assert '"overlap"' in giantstep("predict", "S.toml", "--set", "snr=2", "--json")


def test_the_page_prints_the_numbers_it_shows():
    space = {"__name__": "spiked_covariance"}
    exec("\n".join(blocks("python")), space)
    gs = space["gs"]
    scenario = space["SpikedCovariance"]
    near = gs.predict(scenario(), snr=[0.70, 0.71, 0.72, 0.8])
    assert (
        f"`{near.overlap.values.round(3)}`".replace("0.   ", "0.") in PAGE.read_text()
    )
