"""Sweeps on Dask: lost workers, workers that come later, schedulers that do not
answer.
"""

import json
import os
import socket
import subprocess
import sys
import threading
import warnings
from importlib import import_module
from pathlib import Path

import pytest
import xarray

import giantstep as gs
from giantstep.tools.sweeps.clusters import OnDask
from giantstep.tools.sweeps.inspect import entries

from .faulty import DIARY, KILLS, KILLS_ONCE, Faulty

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::DeprecationWarning"
)


@pytest.fixture(scope="module")
def cluster():
    with (
        warnings.catch_warnings(),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def test_a_scheduler_that_runs_already_gives_the_same_numbers(cluster, store):
    settings = {"dim": 10, "trials": 3, "level": [1, 2, 3], "offset": [0, 1]}
    result = gs.sweep(
        Faulty(), store=store, scheduler=cluster.scheduler.address, **settings
    )
    expected = gs.simulate(Faulty(), **settings)
    xarray.testing.assert_identical(result, expected)
    xarray.testing.assert_identical(
        gs.sweep(Faulty(), engine=cluster, **settings), expected
    )
    step = gs.PlantedSpike(1.0, 1.0, 0.5)
    s = gs.OneStep(
        activation="relu",
        target="tanh",
        width_per_dim=1.5,
        samples_per_dim=2.0,
        ridge=0.01,
        step=step,
    )
    settings = {"dim": 40, "trials": 2, "samples_per_dim": [1.0, 2.0]}
    xarray.testing.assert_identical(
        gs.sweep(s, engine=cluster, **settings), gs.simulate(s, **settings)
    )


def test_dask_alone_starts_a_cluster_of_this_machine(store, diary):
    settings = {"dim": 10, "trials": 2, "level": [1, 2]}
    result = gs.sweep(Faulty(), store=store, engine="dask", workers=1, **settings)
    assert len(diary()) == 4
    xarray.testing.assert_identical(result, gs.simulate(Faulty(), **settings))
    assert sum(len(entry.rows) for entry in entries(store)) == 4


def test_the_command_line_starts_a_cluster_too(tmp_path):
    scenario = gs.OneStep(width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)
    gs.Study(scenario, experiment={"dim": 20, "trials": 2}).write(
        tmp_path / "study.toml"
    )
    options = ["--engine", "dask", "--workers", "1", "--store", "runs.db", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "giantstep", "sweep", "study.toml", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    assert "2 results computed" in done.stderr
    assert json.loads(done.stdout)["attrs"]["trials"] == 2


def test_dask_and_an_address_are_that_cluster(cluster):
    address = cluster.scheduler.address
    result = gs.sweep(Faulty(), engine="dask", scheduler=address, dim=10, trials=1)
    xarray.testing.assert_identical(result, gs.simulate(Faulty(), dim=10, trials=1))


def test_loss_of_a_worker(cluster, store, diary):
    settings = {"dim": 10, "trials": 2, "level": [1, 2, 3]}
    faulty = Faulty(trouble=KILLS_ONCE, since=1)
    path = os.environ[DIARY]
    # they have the environment they were started with
    cluster.run(lambda: os.environ.update({DIARY: path}))
    result = gs.sweep(faulty, store=store, engine=cluster, **settings)
    assert len(diary()) > 6 and Path(path + ".once").exists()  # a worker was lost
    xarray.testing.assert_identical(result, gs.simulate(faulty, **settings))
    assert sum(len(entry.rows) for entry in entries(store)) == 6


def test_a_cluster_that_grows_by_need_sees_the_need(cluster, monkeypatch):
    seen = []

    def submit(self, task):
        seen.append(len(self._waiting))
        return original(self, task)

    original = OnDask._submit
    monkeypatch.setattr(OnDask, "_submit", submit)
    gs.sweep(Faulty(), engine=cluster, dim=10, trials=40)
    assert max(seen) >= 20  # not just what two workers can do


def test_workers_that_come_later_are_used():
    with (
        distributed.LocalCluster(
            n_workers=0, processes=False, dashboard_address=None
        ) as empty,
        distributed.Client(empty, set_as_default=False) as client,
    ):
        timer = threading.Timer(1.0, lambda: empty.scale(1))
        timer.start()
        result = gs.sweep(Faulty(), engine=client, dim=10, trials=3)
        timer.join()
    xarray.testing.assert_identical(result, gs.simulate(Faulty(), dim=10, trials=3))


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_task_that_costs_every_worker_fails_alone(cluster, store):
    with pytest.warns(gs.GiantstepWarning, match="its worker died every time"):
        result = gs.sweep(
            Faulty(since=1),
            store=store,
            engine=cluster,
            dim=10,
            trials=2,
            trouble=[0, KILLS],
        )
    assert result["trials_done"].values.tolist() == [2, 1]


def test_an_unreachable_scheduler_is_said_in_a_sentence(monkeypatch):
    monkeypatch.setattr(
        import_module("giantstep.tools.sweeps.clusters"), "_SCHEDULER_TIMEOUT", 1.0
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(gs.InputError, match="did not answer within 1 s") as caught:
        gs.sweep(Faulty(), scheduler=address, dim=10, trials=1)
    assert address in str(caught.value)
    with pytest.raises(
        gs.InputError,
        match="Field `scheduler` must be the address of a running Dask scheduler",
    ):
        gs.sweep(Faulty(), scheduler="nonsense", dim=10, trials=1)


def test_a_callable_of_a_module_the_workers_do_not_have(cluster, tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("def bent(z):\n    return z * abs(z)\n")
    monkeypatch.syspath_prepend(tmp_path)
    import only_here

    with pytest.raises(
        gs.InputError,
        match=r"callable in `shape` \('bent'\) cannot be loaded by a worker",
    ) as caught:
        gs.sweep(Faulty(shape=only_here.bent), engine=cluster, dim=10, trials=1)
    assert "No module named 'only_here'" in str(caught.value)


def test_a_lambda_travels_by_value(cluster):
    scenario = Faulty(shape=lambda z: z**3)
    settings = {"dim": 10, "trials": 1}
    xarray.testing.assert_identical(
        gs.sweep(scenario, engine=cluster, **settings),
        gs.simulate(scenario, **settings),
    )
