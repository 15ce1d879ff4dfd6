"""The core works where problems, tools, papers and faces do not exist."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import giantstep

PACKAGE = Path(giantstep.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "own_family.md"
ROOT_FILES = ("__init__.py", "__init__.pyi", "__main__.py", "py.typed")
PROGRAM = """
import sys
from pathlib import Path

import giantstep as gs
from spiked_covariance import SpikedCovariance

assert Path(gs.__file__).is_relative_to(Path.cwd()), gs.__file__
s = SpikedCovariance(snr=1.5, samples_per_dim=2.0)
limit = gs.predict(s, snr=[0.5, 1.5])
print(limit.overlap.values.round(6).tolist())
both = gs.compare(s, dim=60, trials=20, snr=[1.5, 3.0])
print([row.variable for row in gs.agreement(both).rows])
gs.save(both, "both.nc")
print(gs.load("both.nc").overlap.equals(both.overlap))
study = gs.Study(s, grid={"snr": [0.5, 1.5]})
study.write("S.toml")
print(gs.Study.read("S.toml").predict().overlap.equals(limit.overlap))
print(gs.family_names())
floors = ("problems", "tools", "papers", "faces", "reference")
loaded = [name.split(".") for name in sys.modules if name.startswith("giantstep.")]
print([".".join(parts) for parts in loaded if parts[1] in floors])
"""


def test_a_family_of_ones_own_runs_on_the_core_alone(tmp_path):
    """Catches a module of the core that needs a problem, a tool or a face."""
    copy = tmp_path / "giantstep"
    shutil.copytree(PACKAGE / "core", copy / "core")
    for name in ROOT_FILES:
        shutil.copy(PACKAGE / name, copy / name)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.M | re.S)
    (tmp_path / "spiked_covariance.py").write_text("\n".join(blocks))
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "[0.0, 0.583333]"
    assert lines[1] == "['overlap', 'top_eigenvalue']"
    assert lines[2:4] == ["True", "True"]
    assert lines[-1] == "[]"
