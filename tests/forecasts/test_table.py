"""The table of a forecast is a result like any other, and answers questions of its
own.
"""

import pickle

import numpy as np
import pytest

import giantstep as gs
from giantstep.tools.data.forecasts.table import Forecast, tell_ridges_apart


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((240, 20))
    labels = features @ rng.standard_normal(20) / 4 + rng.standard_normal(240)
    return gs.forecast(
        features, labels, ridge=[1.0, 10.0, 100.0], samples=[40, 60, 120, 240, 960]
    )


@pytest.fixture(scope="module")
def classes():
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, 300)
    features = rng.standard_normal((300, 15))
    features[:, :3] += 1.5 * np.eye(3)[truth]
    return gs.forecast(
        features,
        np.array(["a", "b", "c"])[truth],
        ridge=[1.0, 30.0],
        samples=[30, 75, 150, 300, 900],
    )


def test_both_sides_in_one_table(table):
    assert table["mse"].dims == ("source", "samples", "ridge") and table[
        "source"
    ].values.tolist() == [
        "limit",
        "experiment",
    ]
    assert (
        table["trials_done"].values.tolist()[-2:] == [0, 0]
        and (table["trials_done"][:3] >= 8).all()
    )
    assert np.isnan(table["mse"].sel(source="experiment", samples=240)).all()
    assert (
        table.attrs["N"] == 240
        and table.attrs["p"] == 20
        and table.attrs["kappa_min"] == 0
    )
    assert "error" not in table
    np.testing.assert_allclose(table["gcv"], table["bias_noise"] + table["variance"])
    np.testing.assert_allclose(
        table["mse_gap"][:3], (table["mse"][1] - table["mse"][0])[:3]
    )


def test_agreement_takes_it(table, classes):
    report = gs.agreement(table)
    assert [row.variable for row in report.rows] == ["mse", "train_mse"]
    assert report.rows[0].points == 9 and report.passes(allow=0.05)
    assert [row.variable for row in gs.agreement(classes).rows] == [
        "mse",
        "error",
        "train_mse",
    ]
    assert gs.agreement(classes).passes(allow=0.15)


@pytest.mark.parametrize("ending", ["nc", "json"])
def test_files(table, tmp_path, ending):
    gs.save(table, tmp_path / f"t.{ending}")
    again = Forecast.of(gs.load(tmp_path / f"t.{ending}"))
    np.testing.assert_array_equal(again["mse"], table["mse"])
    assert (
        again.best_ridge() == table.best_ridge()
        and again.attrs["trust"] == table.attrs["trust"]
    )
    gs.save(table, tmp_path / "t.csv")
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 1 + 2 * 5 * 3


def test_figures(table, classes, tmp_path):
    figure = table.plot(tmp_path / "t.png")
    assert len(figure.axes) == 1 and (tmp_path / "t.png").stat().st_size > 5000
    lines = [
        line
        for line in figure.axes[0].lines
        if len(line.get_xdata()) == 5 and line.get_linestyle() == "-"
    ]
    np.testing.assert_allclose(
        lines[0].get_ydata(), table["mse"].sel(source="limit", ridge=1.0)
    )
    assert len(gs.plot(classes).axes) == 2
    assert len(gs.plot(table, variables="gcv").axes) == 1


def test_samples_needed(table):
    curve = table["mse"].sel(source="limit").min("ridge").values
    wanted = np.sqrt(curve[1] * curve[2])
    needed = table.samples_needed(mse=wanted)
    assert needed.samples == pytest.approx(np.sqrt(60 * 120), rel=1e-9)
    assert needed.low < needed.samples < needed.high and needed.ridge in table.ridge
    assert "needs about 85 samples (" in str(needed) and str(needed).endswith(
        "The forecast of mse at this ridge: good."
    )
    # of a regression the error is the mean squared one
    assert table.samples_needed(error=wanted) == needed
    never = table.samples_needed(mse=0.1)
    assert (
        np.isinf(never.samples)
        and "not reached at any n: noise and misfit alone are E(0) = "
        in never.statement
    )
    beyond = table.samples_needed(mse=0.999 * curve[-1])
    assert (
        np.isinf(beyond.samples)
        and "not reached up to n = 960 (not excluded from" in beyond.statement
    )
    with pytest.raises(gs.InputError, match="either error"):
        table.samples_needed()


def test_the_best_ridge(table, classes):
    at = table["mse"].sel(source="limit", samples=120).values
    assert table.best_ridge(120) == table.ridge.values[at.argmin()]
    assert classes.best_ridge(75, "mse") in (1.0, 30.0)
    with pytest.raises(gs.InputError, match="variable"):
        table.best_ridge(75, "gcv")
    with pytest.raises(
        gs.InputError, match="must be from 40 to 960, the sizes of the table"
    ):
        table.best_ridge(961)


def test_ridges_that_cannot_be_told_apart_are_named(table):
    """Overlap of forecast plus and minus its total standard error; a ridge that is
    clearly worse is no rival.
    """
    limit = table.sel(source="limit", samples=240)
    low, high = (
        (limit["mse"] + side * limit["mse_se_total"]).values for side in (-1, 1)
    )
    best = table.best_ridge(240)
    place = int(np.argmin(limit["mse"].values))
    rivals = [
        ridge
        for number, ridge in enumerate(table.ridge.values)
        if number != place and low[number] <= high[place]
    ]
    assert (
        best == table.ridge.values[place]
        and list(best.rivals) == rivals
        and best.unknown == ()
    )
    assert (
        rivals
        and f"cannot be told from {rivals[0]:.4g}" in str(best)
        and "for mse at n = 240" in str(best)
    )
    assert (
        pickle.loads(pickle.dumps(best)).rivals == best.rivals
        and best + 1 == float(best) + 1
    )
    clear = tell_ridges_apart(
        np.array([1.0, 2.0, 3.0]),
        np.array([0.5, 0.1, np.nan]),
        np.array([0.1, 0.1, np.nan]),
    )
    assert clear == 2.0 and clear.rivals == () and clear.unknown == (3.0,)
    assert str(clear) == "ridge 2, 3 not determined by the rows"


def test_a_ridge_that_the_rows_do_not_determine_is_not_compared():
    """Beyond N a small ridge of wide features is unknown; its error at fewer samples
    says nothing there.
    """
    rng = np.random.default_rng(5)
    features = rng.standard_normal((60, 200))
    labels = features[:, 0] + 0.1 * rng.standard_normal(60)
    with pytest.warns(gs.GiantstepWarning, match="points were not computed"):
        t = gs.forecast(
            features, labels, ridge=[0.01, 3000.0], samples=[30, 60, 240], trials=0
        )
    best = t.best_ridge(240)
    assert (
        best == 3000.0
        and best.unknown == (0.01,)
        and "0.01 not determined by the rows" in str(best)
    )


@pytest.mark.parametrize(
    ("samples", "low", "high", "said"),
    [
        (139.8, 98.13, 517.1, "needs about 140 samples (98 to 520) at"),
        (1234.4, 1200.0, 1280.0, "needs about 1,230 samples (1,200 to 1,280) at"),
        (84.8, 70.2, np.inf, "needs about 85 samples (70 to more than 960) at"),
    ],
)
def test_samples_are_rounded_to_what_is_known(table, samples, low, high, said):
    ridge = table.best_ridge(120)
    assert said in table._say_needed("mse", 1.5, [samples, low, high], ridge)


def test_few_samples_of_a_class_are_marked(classes):
    assert classes["approximate"].values[:, 0].tolist() == [
        True,
        False,
        False,
        False,
        False,
    ]
    assert "share is approximate there" in classes.attrs["trust"]
    assert classes.attrs["classes"] == "a, b, c"


def test_the_same_seed_gives_the_same_numbers_in_another_grid(classes):
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, 300)
    features = rng.standard_normal((300, 15))
    features[:, :3] += 1.5 * np.eye(3)[truth]
    alone = gs.forecast(features, truth, ridge=30.0, samples=75)
    np.testing.assert_allclose(
        alone["error"][:, 0, 0],
        classes["error"].sel(samples=75, ridge=30.0),
        rtol=1e-12,
    )
