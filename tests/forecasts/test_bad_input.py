"""What cannot be used is refused in one sentence that names it."""

import numpy as np
import pytest

import giantstep as gs
from giantstep.tools.data.forecasts import settings

RNG = np.random.default_rng(0)
FEATURES, LABELS = RNG.standard_normal((40, 5)), RNG.standard_normal(40)


def broken(row, column, value):
    features = FEATURES.copy()
    features[row, column] = value
    features[30] = np.nan
    return features


@pytest.mark.parametrize(
    ("features", "labels", "options", "sentence"),
    [
        (
            broken(7, 2, np.inf),
            LABELS,
            {},
            r"2 of 40 rows \(7, 30\) of the features hold NaN .* first in column 2\)",
        ),
        (
            FEATURES,
            np.where(np.arange(40) == 3, np.nan, LABELS),
            {},
            r"1 of 40 rows \(3\) have labels that",
        ),
        (FEATURES, [None, *LABELS[1:]], {}, r"1 of 40 rows \(0\) have labels"),
        (FEATURES[:9], LABELS[:9], {}, "9 rows; a forecast needs at least 10"),
        (FEATURES, LABELS[:39], {}, "40 rows of features but 39 labels"),
        (FEATURES[:39], LABELS, {}, "39 rows of features but 40 labels"),
        (FEATURES, np.ones(40), {}, "All 40 labels are 1"),
        (FEATURES, np.ones(40), {"task": "classes"}, "two classes are needed"),
        (
            FEATURES,
            ["b"] * 4 + ["a"] * 36,
            {},
            "Class b has 4 of 40 rows; every class needs at least 5",
        ),
        (
            FEATURES,
            LABELS,
            {"ridge": -1},
            "`ridge` must be at least 0, but is ridge=-1",
        ),
        (
            FEATURES,
            LABELS,
            {"samples": [2, 30]},
            "`samples` must be whole numbers at least 3, but is samples=2",
        ),
        (FEATURES, LABELS, {"samples": 20.5}, "`samples` must be whole numbers"),
        (
            FEATURES,
            LABELS,
            {"task": "ranking"},
            "`task` must be one of auto, regression, classes",
        ),
        (FEATURES, LABELS, {"trials": -1}, "`trials` must be"),
        (
            FEATURES,
            LABELS,
            {"groups": np.arange(39)},
            "`groups` must be one label for each of 40 rows",
        ),
        (
            FEATURES,
            LABELS,
            {"groups": np.arange(40) % 3},
            "labels of at least 4 groups",
        ),
        (np.full((40, 5), 0.1), LABELS, {}, "All columns of the features are constant"),
        (
            np.full((40, 50), 0.1),
            LABELS,
            {},
            "All columns of the features are constant",
        ),
        (FEATURES * 1e120, LABELS, {}, r"features reach .*e[+]120, too large"),
        (FEATURES.astype(str), LABELS, {}, "must be numbers"),
        (FEATURES[:, 0], LABELS, {}, r"rows and columns, but have the shape \(40,\)"),
        (
            [FEATURES[:10], FEATURES[10:]],
            LABELS,
            {},
            "rows and columns, but have parts of unequal shape",
        ),
        (3.0, LABELS, {}, "shape"),
        ([], LABELS, {}, "shape"),
        (FEATURES, LABELS[:, None, None], {}, "labels must be a list or a table"),
    ],
)
def test_one_sentence(features, labels, options, sentence):
    with pytest.raises(gs.InputError, match=sentence) as caught:
        gs.forecast(features, labels, **options)
    assert "\n" not in str(caught.value)


def test_what_is_infinite_is_not_computed():
    with pytest.warns(gs.GiantstepWarning, match="ridge 0 just interpolates"):
        t = gs.forecast(FEATURES, LABELS, ridge=[0, 1], samples=[6, 20], trials=0)
    assert t["converged"].values.tolist() == [[False, True], [True, True]]


def test_a_row_of_leverage_one_has_no_leave_one_out():
    features = np.zeros((40, 5))
    features[:, :4] = FEATURES[:, :4]
    features[3, 4] = 1.0  # only this row has the fifth feature
    with pytest.warns(
        gs.GiantstepWarning, match="1 rows of leverage 1 cannot be left out"
    ):
        t = gs.forecast(features, LABELS, ridge=[0, 1], samples=40, trials=0)
    assert np.isnan(t["mse"].values[0, 0, 0]) and np.isfinite(t["gcv"].values[0]).all()


def test_scales_that_differ_too_much_are_said():
    with pytest.warns(
        gs.GiantstepWarning, match="scales of the columns differ by more than 1e[+]12"
    ):
        gs.forecast(
            FEATURES * np.array([1, 1, 1, 1, 1e13]),
            LABELS,
            ridge=1,
            samples=40,
            trials=0,
        )


def test_what_labels_are_taken_for():
    def task(labels, **options):
        t = gs.forecast(FEATURES, labels, ridge=1, samples=40, trials=0, **options)
        return t.attrs["task"], t.attrs["outputs"]

    assert task(LABELS) == ("regression", 1)
    assert task(LABELS > 0) == ("classes", 1)
    assert task(np.arange(40) % 4) == ("classes", 4)
    assert task(np.arange(40) % 4, task="regression") == ("regression", 1)
    assert task(np.arange(40)) == ("regression", 1)
    assert task(np.eye(4)[np.arange(40) % 4]) == ("classes", 4)
    assert task(RNG.standard_normal((40, 3))) == ("regression", 3)
    assert task(["x", "y"] * 20) == ("classes", 1)


def test_what_does_not_fit_into_memory_is_refused(monkeypatch):
    monkeypatch.setattr(settings, "available_memory", lambda: 1000)
    with pytest.raises(
        gs.InputError, match="5 columns and 40 rows .* fewer rows or columns"
    ):
        gs.forecast(FEATURES, LABELS)
