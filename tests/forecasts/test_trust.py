"""The statement whether to believe a forecast: what it must notice, and what it must
not.
"""

import json

import numpy as np
import pytest

import giantstep as gs


def numbers(table):
    return json.loads(table.attrs["trust_numbers"])


def linear(rng, features):
    return features @ rng.standard_normal(features.shape[1]) / np.sqrt(
        features.shape[1]
    ) + rng.standard_normal(len(features))


def test_even_rows_are_good():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((600, 60))
    t = gs.forecast(
        features, linear(rng, features), ridge=[1.0, 30.0], samples=[150, 600]
    )
    assert numbers(t)["verdicts"] == ["good", "good"]
    said = t.attrs["trust"].splitlines()[0]
    assert (
        said.startswith("Mean squared error: good at ridge")
        and "(best at N = 600" in said
        and "(se_total)" in said
    )
    assert (
        "trained on these rows" in t.attrs["trust"]
        and "`groups` says" in t.attrs["trust"]
    )
    assert (
        t["mse_verdict"].values.tolist() == [["good", "good"]] * 2
        and "error_verdict" not in t
    )


@pytest.mark.filterwarnings("ignore:.* columns are constant")
def test_each_variable_is_judged_by_its_own_probes(datasets):
    """200 rows of digits: the mean squared error is forecast well, the misclassified
    share is not.
    """
    features, labels = (rows[:200] for rows in datasets["digits ten"])
    with pytest.warns(gs.GiantstepWarning, match="Do not trust this forecast of error"):
        t = gs.forecast(features, labels, ridge=[1.0, 10.0], samples=[50, 100, 200])
    found = numbers(t)

    def rule(probes, ridge):
        gaps = [(abs(probe["gap"][ridge]), probe["se"][ridge]) for probe in probes]
        if any(gap - se > 0.08 for gap, se in gaps):
            return "do not trust"
        return "good" if all(gap + se <= 0.07 for gap, se in gaps) else "fair"

    assert found["verdicts"] == [rule(found["probes"], ridge) for ridge in (0, 1)]
    assert found["error_verdicts"] == [
        rule(found["error_probes"], ridge) for ridge in (0, 1)
    ]
    assert found["verdicts"] != found["error_verdicts"]
    assert t["error_verdict"].values.tolist() == [found["error_verdicts"]] * 3
    assert t["mse_verdict"].values.tolist() == [found["verdicts"]] * 3
    share, squared = t.attrs["trust"].splitlines()[:2]
    place = t.ridge.values.tolist().index(float(t.best_ridge()))
    for line, word, name, probes in (
        (share, "Misclassified share", "error", found["error_probes"]),
        (squared, "Mean squared error", "mse", found["probes"]),
    ):
        assert line.startswith(f"{word}: {t.attrs[f'verdict_{name}']} (")
        assert f"{100 * probes[0]['gap'][place]:+.1f} ±" in line
        assert (
            t[f"{name}_verdict"].values[2, place]
            == t.attrs[f"verdict_{name}"].partition(" at ")[0]
        )
    assert "cannot be told from" in share


def test_total_errors_have_what_the_probes_show():
    rng = np.random.default_rng(1)
    features = rng.standard_normal((300, 60)) * rng.standard_t(2.2, 300)[:, None]
    with pytest.warns(gs.GiantstepWarning, match="Do not trust this forecast"):
        t = gs.forecast(
            features, linear(rng, features), ridge=[1.0, 30.0], samples=[75, 150, 300]
        )
    found = numbers(t)
    excess = np.max(
        [
            np.maximum(np.abs(probe["gap"]) - probe["se"], 0)
            for probe in found["probes"]
        ],
        axis=0,
    )
    limit = t.sel(source="limit")
    total = np.sqrt(limit["mse_se"] ** 2 + (limit["mse"] * excess) ** 2)
    np.testing.assert_allclose(limit["mse_se_total"], total)
    gap = (t["mse"][0] / t["mse"][1] - 1).sel(samples=75).values
    np.testing.assert_allclose(found["probes"][0]["gap"], gap, rtol=1e-9)
    assert found["leverage_cv"][0] > 0.5 and "look at rows" in t.attrs["trust"]
    assert len(found["outliers"]) == 5


def test_copies_are_counted_and_seen():
    rng = np.random.default_rng(2)
    features = np.repeat(rng.standard_normal((300, 150)), 2, axis=0)
    labels = np.repeat(linear(rng, features[::2]), 2)
    with (
        pytest.warns(
            gs.GiantstepWarning,
            match="300 of 600 rows of the features are exact copies",
        ),
        pytest.warns(gs.GiantstepWarning, match="Do not trust this forecast"),
    ):
        t = gs.forecast(features, labels, ridge=1.0, samples=600)
    assert (
        numbers(t)["verdicts"] == ["do not trust"] and numbers(t)["duplicates"] == 300
    )
    assert "300 rows are exact copies" in t.attrs["trust"]


def test_groups_stay_on_one_side():
    """Rows of a patient share noise: leave-one-out sees it, an experiment that keeps
    patients together does not.
    """
    rng = np.random.default_rng(3)
    patient = np.repeat(np.arange(60), 6)
    own = rng.standard_normal((60, 40))
    features = own[patient] + 0.1 * rng.standard_normal((360, 40))
    labels = rng.standard_normal(60)[patient] + 0.1 * rng.standard_normal(360)
    measured = []
    for groups in (None, patient):
        with pytest.warns(gs.GiantstepWarning, match="Do not trust"):
            t = gs.forecast(features, labels, ridge=1.0, samples=180, groups=groups)
        measured.append(t["mse"].sel(source="experiment").item())
    assert measured[1] > 1.5 * measured[0]


def test_without_an_experiment_nothing_is_judged():
    rng = np.random.default_rng(4)
    features = rng.standard_normal((100, 10))
    t = gs.forecast(features, linear(rng, features), ridge=1.0, samples=50, trials=0)
    assert t["mse_verdict"].item() == "not judged" and t["source"].values.tolist() == [
        "limit"
    ]
    assert "the method was not tried" in t.attrs["trust"]
    with pytest.raises(gs.InputError):
        gs.agreement(t)


def test_more_trials_are_made_until_a_probe_is_precise():
    rng = np.random.default_rng(5)
    features = rng.standard_normal((80, 10))
    t = gs.forecast(features, linear(rng, features), ridge=1.0, samples=[20, 30, 40])
    assert t["trials_done"].values.tolist()[1] == 8 and t["trials_done"].values[0] > 8


def test_very_uneven_rows_are_not_trusted_beyond_their_number():
    rng = np.random.default_rng(6)
    features = (
        rng.standard_normal((60, 55)) * (0.05 + (np.arange(60) < 8) * 5.0)[:, None]
    )
    labels = rng.standard_normal(60)
    t = gs.forecast(features, labels, ridge=0.01, samples=[30, 240], trials=0)
    assert t["loo_over_gcv"].values[1, 0] > 1.5
    assert t["mse_verdict"].values[1, 0] == "do not trust; between gcv and mse"


def test_copies_do_not_make_interpolation_look_like_least_squares():
    rng = np.random.default_rng(7)
    features = rng.standard_normal((30, 60))
    labels = rng.standard_normal(30)
    with (
        pytest.warns(
            gs.GiantstepWarning, match="1 of 31 rows of the features are exact copies"
        ),
        pytest.warns(gs.GiantstepWarning, match="31 rows do not determine this"),
    ):
        t = gs.forecast(
            np.vstack([features, features[:1]]),
            np.append(labels, labels[0]),
            ridge=[0.01, 1e4],
            samples=200,
            trials=0,
        )
    assert t.attrs["kappa_min"] > 0 and t["converged"].values.tolist() == [
        [False, True]
    ]


@pytest.mark.filterwarnings("ignore::giantstep.GiantstepWarning")
def test_one_large_group_leaves_others_to_test_on():
    rng = np.random.default_rng(8)
    features = rng.standard_normal((60, 9))
    groups = np.repeat([0, 1, 2, 3], [57, 1, 1, 1])
    t = gs.forecast(
        features, linear(rng, features), ridge=1.0, samples=[15, 45], groups=groups
    )
    assert np.isfinite(t["mse"].sel(source="experiment")).all()
