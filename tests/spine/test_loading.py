"""What a new process loads."""

import subprocess
import sys

PREDICT = """
import sys
import giantstep as gs
bare = [name for name in ("numpy", "pydantic", "xarray", "scipy") if name in sys.modules]
stepped = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1, step=gs.MaximalStep(2.0))
result = gs.predict(stepped, ridge=[0.1, 1.0])
unused = ("dask", "distributed", "matplotlib", "scipy.linalg", "typer", "rich")
print(bare, [name for name in unused if name in sys.modules], result.ridge.values.tolist())
names = gs.predict(gs.SubspaceClustering.example(), progress=False).branch.values.tolist()
print(names != [], "dask" in sys.modules)
"""


def test_a_prediction_loads_no_more_than_it_needs():
    """Neither numbers nor names as coordinates load Dask, which is installed."""
    run = subprocess.run([sys.executable, "-c", PREDICT], capture_output=True, text=True, check=True)
    assert run.stdout.split("\n")[:2] == ["[] [] [0.1, 1.0]", "True False"]
