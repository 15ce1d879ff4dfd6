"""The SLURM script of the examples: its job script, and a whole run with a local
cluster in place of SLURM.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import xarray

import giantstep as gs
from giantstep.tools.sweeps.inspect import overview

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


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
)
def test_it_asks_slurm_for_workers(script):
    pytest.importorskip("dask_jobqueue")
    words = [
        "S.toml",
        "runs.db",
        "--queue",
        "cpu",
        "--jobs",
        "7",
        "--directive=--gres=gpu:1",
        "--memory",
        "3",
    ]
    chosen = script.engine(script.arguments(words))
    assert chosen["engine"].jobs == 7 and chosen["memory"] == 3
    with chosen["engine"].cluster(4, 3 * 2**30) as cluster:
        job = cluster.job_script()
    asked = (
        "-J giantstep",
        "-p cpu",
        "--cpus-per-task=4",
        "--mem=3G",
        "-t 01:00:00",
        "--gres=gpu:1",
    )
    for line in asked:
        assert f"#SBATCH {line}\n" in job
    assert (
        "--nthreads 1" in job
        and "--lifetime 3300s" in job
        and "--death-timeout 60" in job
    )


PROGRAM = """
import signal, warnings
import giantstep as gs
warnings.simplefilter("ignore")
with gs.Slurm(jobs=1).cluster(1, None):
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


def test_ctrl_c_is_that_of_the_program_once_jobs_are_described():
    """The library of the jobs takes it over when it is imported: a sweep ended with
    status 0 and without a word.
    """
    pytest.importorskip("dask_jobqueue")
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"jobs": 0}, "Field `jobs` must be a whole number at least 1"),
        ({"queue": "a b"}, "Field `queue` must be a name of SLURM's"),
        ({"walltime": "1h"}, 'Field `walltime` must be a time such as "01:00:00"'),
        ({"walltime": "00:00:00"}, "Field `walltime` must be a time"),
        (
            {"directives": "--gres=gpu:1"},
            "Field `directives` must be a list of options of sbatch",
        ),
    ],
)
def test_jobs_are_checked(settings, expected):
    with pytest.raises(gs.InputError, match=expected):
        gs.Slurm(**settings)
    assert gs.Slurm(walltime="1-02:00:03").seconds == 93603


def test_without_slurm_it_is_said_in_a_sentence(monkeypatch, tmp_path):
    pytest.importorskip("dask_jobqueue")
    from .faulty import Faulty

    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(gs.InputError, match='engine="slurm" needs the command sbatch'):
        gs.sweep(Faulty(), engine="slurm", dim=10, trials=1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_it_runs_on_a_cluster_and_goes_on(script, tmp_path, store, capsys):
    from .faulty import Faulty

    (tmp_path / "S.toml").write_text(STUDY)
    script.main(
        [
            str(tmp_path / "S.toml"),
            str(store),
            "--local",
            "1",
            "--out",
            str(tmp_path / "r.nc"),
        ]
    )
    expected = gs.simulate(Faulty(), dim=10, trials=2, level=[1, 2, 3])
    xarray.testing.assert_identical(gs.load(tmp_path / "r.nc"), expected)
    (line,) = overview(store)
    assert (line["points"], line["results"]) == (3, 6)
    capsys.readouterr()
