"""The SLURM script of the examples: its job script, and a whole run with a local cluster in place of SLURM."""

import importlib.util
from pathlib import Path

import pytest
import xarray

import giantstep as gs
from giantstep.sweep.inspect import overview

pytest.importorskip("distributed")
SCRIPT = Path(__file__).parents[2] / "examples" / "slurm_sweep.py"

STUDY = """\
[scenario]
family = "faulty"
[grid]
level = [1, 2, 3]
[experiment]
dim = 10
trials = 2
"""


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("slurm_sweep", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
def test_it_asks_slurm_for_workers(script, monkeypatch):
    jobqueue = pytest.importorskip("dask_jobqueue")
    asked = {}
    monkeypatch.setattr(jobqueue.SLURMCluster, "adapt", lambda self, **options: asked.update(options))
    words = ["S.toml", "runs.db", "--queue", "cpu", "--jobs", "7", "--threads", "4", "--directive=--gres=gpu:1"]
    with script.cluster(script.arguments(words)) as cluster:
        job = cluster.job_script()
    assert asked == {"minimum_jobs": 1, "maximum_jobs": 7}
    for line in ("#SBATCH -p cpu", "#SBATCH --cpus-per-task=4", "#SBATCH -t 01:00:00", "#SBATCH --gres=gpu:1"):
        assert line in job
    assert "--nthreads 1" in job and "--lifetime 55m" in job


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_it_runs_on_a_cluster_and_goes_on(script, tmp_path, store, capsys):
    from .faulty import Faulty

    (tmp_path / "S.toml").write_text(STUDY)
    script.main([str(tmp_path / "S.toml"), str(store), "--local", "1", "--out", str(tmp_path / "r.nc")])
    expected = gs.simulate(Faulty(), dim=10, trials=2, level=[1, 2, 3])
    xarray.testing.assert_identical(gs.load(tmp_path / "r.nc"), expected)
    (line,) = overview(store)
    assert (line["points"], line["results"]) == (3, 6)
    capsys.readouterr()
