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
    run = subprocess.run(
        [sys.executable, "-c", PREDICT], capture_output=True, text=True, check=True
    )
    assert run.stdout.split("\n")[:2] == ["[] [] [0.1, 1.0]", "True False"]


LATER = """
from giantstep.core.lab.threads import blas_threads
with blas_threads(1):
    import scipy.linalg
    from threadpoolctl import threadpool_info
    print({library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"})
"""


def test_a_setting_of_threads_reaches_what_is_loaded_later(monkeypatch):
    """Catches a worker of a sweep whose tasks load SciPy's BLAS after its `threads`
    were set.
    """
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    run = subprocess.run(
        [sys.executable, "-c", LATER], capture_output=True, text=True, check=True
    )
    assert run.stdout == "{1}\n"
