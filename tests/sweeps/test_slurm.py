"""Sweeps on a real SLURM of this machine: jobs are cancelled, programs killed, and the
table is that of a local run.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import giantstep as gs
from giantstep.tools.sweeps.inspect import overview

pytest.importorskip("dask_jobqueue")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
STUDY = """\
[scenario]
family = "one-step"
width_per_dim = 1.5
samples_per_dim = 2.0
ridge = 0.1
[grid]
samples_per_dim = [0.5, 1.0, 2.0]
[experiment]
dim = 500
trials = 120
"""
JOBS = ["--queue", "cpu", "--jobs", "2", "--memory", "1"]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """Start SLURM; jobs run with this Python, on this source."""
    folder = tmp_path_factory.mktemp("slurm")
    script = str(ROOT / "tests" / "slurm" / "one_node.sh")
    started = subprocess.run(
        [script, "start", str(folder)], capture_output=True, text=True, timeout=600
    )
    if started.returncode:
        pytest.skip(
            f"SLURM cannot be had here: {started.stderr.strip().splitlines()[-1]}"
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
        yield
        subprocess.run([script, "stop", str(folder)], check=True)


def jobs(state="all"):
    listed = subprocess.run(
        ["squeue", "-h", "-t", state, "-o", "%i %T"],
        capture_output=True,
        text=True,
        check=True,
    )
    over = ("CANCELLED", "COMPLETED", "FAILED", "TIMEOUT")
    return [
        line.split()[0]
        for line in listed.stdout.splitlines()
        if line.split()[1] not in over
    ]


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "in vain"
        time.sleep(0.2)


def results(store):
    return sum(line["results"] for line in overview(store)) if store.exists() else 0


def start(folder, *words):
    with open(folder / "log.txt", "a") as log:
        return subprocess.Popen(
            [sys.executable, *map(str, words)], cwd=folder, stdout=log, stderr=log
        )


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_a_sweep_in_jobs_that_are_cancelled_by_a_program_that_is_killed(
    slurm, tmp_path
):
    study = tmp_path / "S.toml"
    store = tmp_path / "runs.db"
    study.write_text(STUDY)
    local = gs.Study.read(study).sweep(store=tmp_path / "local.db", threads=1)
    gs.save(local, tmp_path / "local.csv")

    example = [
        ROOT / "examples" / "slurm_sweep.py",
        study,
        store,
        *JOBS,
        "--out",
        tmp_path / "slurm.csv",
    ]
    program = start(tmp_path, *example)
    wait_until(lambda: results(store) > 9, 120)
    subprocess.run(["scancel", jobs("RUNNING")[0]], check=True)
    done = results(store)
    wait_until(lambda: results(store) > done + 20, 120)
    kill(program)
    wait_until(lambda: not jobs("RUNNING"), 240)  # workers end without their scheduler
    subprocess.run(["scancel", "-u", str(os.getuid())], check=True)
    wait_until(lambda: not jobs(), 30)
    done = results(store)
    assert done < 360

    command = [
        *("-m", "giantstep", "sweep"),
        study,
        "--store",
        store,
        "--engine",
        "slurm",
        *JOBS,
    ]
    program = start(tmp_path, *command)
    wait_until(lambda: results(store) > done + 20, 120)
    program.send_signal(signal.SIGINT)
    assert program.wait(60) == 130
    wait_until(lambda: not jobs(), 30)  # those in the queue too
    assert done < results(store) < 360

    program = start(tmp_path, *example)
    assert program.wait(600) == 0, (tmp_path / "log.txt").read_text()
    wait_until(lambda: not jobs(), 30)
    assert results(store) == 360
    assert (tmp_path / "slurm.csv").read_bytes() == (
        tmp_path / "local.csv"
    ).read_bytes()
