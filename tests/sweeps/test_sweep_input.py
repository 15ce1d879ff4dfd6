"""Bad input of a sweep: one sentence each, before anything is computed."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest

import giantstep as gs
from giantstep.tools.sweeps.store import VERSION, Store

from .faulty import Faulty


def sentence(**settings):
    with pytest.raises(gs.InputError) as caught:
        gs.sweep(
            settings.pop("scenario", Faulty()), **{"dim": 10, "trials": 1, **settings}
        )
    return str(caught.value)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"source": "theory"}, 'Field `source` must be "experiment" or "limit"'),
        (
            {"engine": "pbs"},
            (
                "Field `engine` must be one of local, processes, dask, slurm, a"
                " gs.Slurm or a Dask client"
            ),
        ),
        (
            {"engine": "slurm", "workers": 2},
            "Field `workers` must be left out on a cluster",
        ),
        ({"engine": 3}, "Field `engine` must be one of"),
        ({"workers": 0}, "Field `workers` must be a whole number at least 1"),
        (
            {"engine": "local", "workers": 2},
            'Field `workers` must be 1 with engine="local"',
        ),
        (
            {"engine": "processes", "scheduler": "tcp://a:1"},
            "Field `scheduler` must be an address",
        ),
        (
            {"scheduler": "tcp://a:1", "workers": 2},
            "Field `workers` must be left out on a cluster",
        ),
        ({"scheduler": "local"}, "Field `scheduler` must be an address"),
        ({"scheduler": "dask"}, "Field `scheduler` must be an address"),
        (
            {"engine": "dask", "scheduler": "tcp://a:1", "workers": 2},
            "Field `workers` must be left out on a cluster",
        ),
        ({"threads": 0}, "Field `threads` must be"),
        ({"memory": -1, "workers": 2}, "Field `memory` must be a number above 0"),
        ({"memory": 1}, "Field `memory` must be left out but for worker processes"),
        ({"time_limit": 0}, "Field `time_limit` must be a number above 0"),
        ({"retry": 1}, "Field `retry` must be True or False"),
        ({"progress": 3}, "Field `progress` must be True, False or a callable"),
        ({"levle": 1}, "did you mean `level`?"),
        ({"dim": None}, "Field `dim` is missing"),
    ],
)
def test_settings_are_checked(settings, expected, diary):
    assert expected in sentence(**settings)
    assert diary() == []


def test_a_store_of_another_version_is_refused(store):
    Store(store).close()
    for version, age in ((VERSION + 1, "a newer"), (0, "an older")):
        with sqlite3.connect(store) as connection:
            connection.execute(f"PRAGMA user_version = {version}")
        connection.close()
        before = store.read_bytes()
        said = sentence(store=store)
        assert (
            f"was written by {age} giantstep (store version {version}, this one reads"
            f" {VERSION})" in said
        )
        assert store.read_bytes() == before


def test_another_database_is_no_store(store):
    with sqlite3.connect(store) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    assert "is an SQLite file, but no store of giantstep" in sentence(store=store)


def test_places_that_cannot_be_written(tmp_path):
    for place in (
        tmp_path / "missing" / "runs.db",
        tmp_path,
        Path("/proc/runs.db"),
    ):  # read-only for root too
        assert "must be a file in a folder that can be written" in sentence(store=place)


def test_a_read_only_store_is_refused_before_anything_runs(store, monkeypatch, diary):
    gs.sweep(Faulty(), store=store, dim=10, trials=1)
    diary()
    connect = sqlite3.connect
    monkeypatch.setattr(
        "sqlite3.connect",
        lambda file, **given: connect(f"file:{file}?mode=ro", uri=True, **given),
    )
    # there is nothing to add
    assert bool(gs.sweep(Faulty(), store=store, dim=10, trials=1)["converged"])
    assert "cannot be written to" in sentence(store=store, trials=2)
    assert diary() == []


def test_a_callable_that_cannot_be_sent():
    scenario = Faulty(shape=lambda z: z**3)
    said = sentence(scenario=scenario, workers=2)
    assert (
        "The Python callable in `shape` ('<lambda>') cannot be loaded by a worker"
        in said
    )
    assert 'use engine="local"' in said
    assert bool(gs.sweep(scenario, dim=10, trials=1)["converged"])


def test_a_callable_has_its_own_results(store, diary):
    for power in (2, 3):
        gs.sweep(
            Faulty(shape=lambda z, power=power: z**power), store=store, dim=10, trials=1
        )
    assert len(diary()) == 2
    # known by its values
    gs.sweep(Faulty(shape=lambda z: z * z * z), store=store, dim=10, trials=1)
    assert diary() == []


def test_what_does_not_fit_is_refused_before_anything_runs(monkeypatch, diary):
    monkeypatch.setattr(Faulty, "memory", lambda *args: 3 * 2**30)
    monkeypatch.setattr(
        "giantstep.core.lab.devices.available_memory", lambda device: 4 * 2**30
    )
    assert bool(gs.sweep(Faulty(), dim=10, trials=1)["converged"])
    diary()
    assert "needs 6 GiB of memory" in sentence(workers=2)
    assert diary() == []


def test_a_field_that_files_leave_out_at_its_default_can_vary(tmp_path):
    inputs = gs.InputBlocks(
        eigenvalues=[2.5, 0.5], fractions=[0.25, 0.75], shares=[0.5, 0.5]
    )
    scenario = gs.FewSteps(
        target="sin(z)",
        activation="tanh",
        rate=1.0,
        steps=1,
        width_per_dim=1.0,
        samples_per_dim=1.5,
        ridge=0.1,
        inputs=inputs,
    )
    swept = gs.sweep(
        scenario,
        source="limit",
        precondition=[0.0, 1.0],
        store=tmp_path / "runs.db",
        progress=False,
    )
    direct = gs.predict(scenario, precondition=[0.0, 1.0])
    np.testing.assert_allclose(swept.test_error, direct.test_error, rtol=1e-10)


def test_an_empty_path_is_no_store():
    """Catches SQLite's unnamed database, which keeps nothing."""
    assert "cannot be opened" in sentence(store="", progress=False)
