"""A store that giantstep 0.2 wrote (`data/version1.db`).

It has two points of a mixture with three trials and both limits, and two questions
about the best errors with two trials.
"""

import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

import giantstep as gs
from giantstep.tools.sweeps.inspect import overview
from giantstep.tools.sweeps.store import Store

OLD = Path(__file__).parent / "data" / "version1.db"
SCENARIO = gs.MixtureGLM(labels="linear", noise=0.3, ridge=0.5, samples_per_dim=2.0)
ASKED = dict(
    dim=20, trials=3, seed=1, samples_per_dim=[1.0, 2.0], engine="local", progress=False
)


@pytest.fixture
def store(tmp_path):
    return shutil.copy(OLD, tmp_path / "runs.db")


@pytest.fixture
def no_trials(monkeypatch):
    def refuse(*given, **settings):
        raise AssertionError("a trial that was stored is run again")

    monkeypatch.setattr("giantstep.core.run.trials.TrialDraw.run", refuse)
    return monkeypatch


def test_an_old_store_goes_on_where_it_was(store, no_trials, caplog):
    stored = gs.sweep(SCENARIO, store=store, **ASKED)
    no_trials.undo()
    assert (
        "10 trials are kept, 2 limits are solved again when they are asked for, 0"
        " damaged trials are" in caplog.text
    )
    fresh = gs.simulate(
        SCENARIO, **{name: value for name, value in ASKED.items() if name != "engine"}
    )
    np.testing.assert_allclose(stored.test_mse, fresh.test_mse, rtol=1e-9)
    assert [(line["source"], line["results"]) for line in overview(store)] == [
        ("experiment", 6),
        ("experiment", 2),
        ("experiment", 2),
    ]
    limits = gs.sweep(
        SCENARIO,
        store=store,
        source="limit",
        samples_per_dim=[1.0, 2.0],
        engine="local",
        progress=False,
    )
    np.testing.assert_allclose(
        limits.test_mse,
        gs.predict(SCENARIO, samples_per_dim=[1.0, 2.0]).test_mse,
        rtol=1e-12,
    )


@pytest.mark.parametrize("what", ["errors", "trajectory"])
def test_trials_with_a_setting_that_went_are_found(store, no_trials, what):
    scenario = gs.BayesLimit(target="z", noise=0.3, samples_per_dim=3.0)
    asked = dict(dim=40, trials=2, seed=1)
    stored = gs.sweep(
        scenario, store=store, what=what, engine="local", progress=False, **asked
    )
    no_trials.undo()
    fresh = gs.simulate(scenario, what=what, progress=False, **asked)
    np.testing.assert_allclose(stored.mse, fresh.mse, rtol=1e-6)


def test_another_sweep_brings_it_up_to_date_first(store, monkeypatch):
    transaction = Store.transaction

    def wait_for_another(waiting):
        monkeypatch.undo()
        Store(store).close()
        return transaction(waiting)

    monkeypatch.setattr(Store, "transaction", wait_for_another)
    Store(store).close()
    assert sum(line["results"] for line in overview(store)) == 10


def test_reading_alone_changes_nothing(store):
    with pytest.raises(
        gs.InputError,
        match="is of version 1; the next sweep into it brings it up to date",
    ):
        overview(store)
    assert sqlite3.connect(store).execute("PRAGMA user_version").fetchone() == (1,)


def test_a_damaged_row_is_left_out(store, caplog):
    with sqlite3.connect(store) as file:
        file.execute(
            "UPDATE results SET checksum = x'00' WHERE rowid IN (SELECT min(rowid) FROM"
            " results)"
        )
    gs.sweep(SCENARIO, store=store, **ASKED)
    assert "9 trials are kept" in caplog.text and "1 damaged trials are" in caplog.text
    assert sum(line["results"] for line in overview(store)) == 10
