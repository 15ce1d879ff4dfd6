"""Tables of users: constant columns are left out with one warning, labels are sent to
the verb that takes them.
"""

import numpy as np
import pandas
import pytest

import giantstep as gs
from giantstep.estimators import AMPClustering, ForecastRidge

RNG = np.random.default_rng(0)
FULL = RNG.standard_normal((300, 12))
Y = FULL[:, 0] + RNG.standard_normal(300)
PLACES = (0, 5, 9)
# 15 columns, of which 0, 6 and 11 are constant
TABLE = np.insert(FULL, PLACES, [3.0, 0.0, -0.1], axis=1)
WORDS = "3 of 15 columns are constant and were left out: 0, 6, 11."


def one_step(inputs):
    return gs.OneStep(
        width_per_dim=1.5,
        samples_per_dim=2.0,
        ridge=0.1,
        step=gs.MaximalStep(1.0, batch_per_dim=3.0),
        inputs=inputs,
    )


TAKERS = {
    "rows": gs.InputRows,
    "scenario": one_step,
    "covariance": lambda X: gs.InputCovariance.from_data(X, show=False),
    "mixture": lambda X: gs.MixtureGLM.from_data(X, Y),
    "forecast": lambda X: gs.forecast(X, Y, ridge=1.0, samples=[100], trials=0),
    "ridge": lambda X: ForecastRidge(ridges=[1.0], trials=0).fit(X, Y),
    "clusters": lambda X: AMPClustering(n_clusters=1).fit(X),
    "place": lambda X: gs.place(X, 2),
}


@pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS)
def test_every_verb_leaves_out_constant_columns_in_the_same_words(take):
    with pytest.warns(gs.GiantstepWarning) as caught:
        take(TABLE)
    assert [str(warning.message) for warning in caught].count(WORDS) == 1
    assert (
        next(warning for warning in caught if str(warning.message) == WORDS).filename
        == __file__
    )


def test_columns_of_a_frame_are_called_by_their_names():
    frame = pandas.DataFrame(
        FULL, columns=[f"gene {place}" for place in range(12)]
    ).assign(empty=1.0)
    with pytest.warns(
        gs.GiantstepWarning,
        match="1 of 13 columns is constant and was left out: empty.",
    ):
        gs.MixtureGLM.from_data(frame, Y)
    with pytest.warns(
        gs.GiantstepWarning,
        match="1 of 13 columns is constant and was left out: empty.",
    ):
        gs.forecast(frame, Y, ridge=1.0, samples=[100], trials=0)


def test_what_is_left_is_the_table_without_these_columns():
    with pytest.warns(gs.GiantstepWarning, match="3 of 15"):
        rows = gs.InputRows(TABLE)
    np.testing.assert_allclose(
        rows.covariance().eigenvalues,
        gs.InputRows(FULL).covariance().eigenvalues,
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        rows.table().whitened(), gs.InputRows(FULL).table().whitened(), atol=1e-12
    )
    assert rows.own_dim == 12
    with pytest.warns(gs.GiantstepWarning, match="3 of 15"):
        forecast = gs.forecast(TABLE, Y, ridge=1.0, samples=[100, 900], trials=0)
    same = gs.forecast(FULL, Y, ridge=1.0, samples=[100, 900], trials=0)
    assert forecast.attrs["p"] == same.attrs["p"] == 12
    np.testing.assert_allclose(forecast.mse, same.mse, rtol=1e-12)
    with pytest.warns(gs.GiantstepWarning, match="3 of 15"):
        mixture = gs.MixtureGLM.from_data(TABLE, Y)
    assert mixture == gs.MixtureGLM.from_data(FULL, Y)


def test_a_table_needs_columns_that_vary():
    flat = np.ones((50, 4))
    one = flat.copy()
    one[:, 2] = np.arange(50)
    with pytest.raises(
        gs.InputError, match=r"at least 2 columns that vary \(1 of them does\)"
    ):
        gs.InputRows(one)
    for take in (
        lambda X: gs.MixtureGLM.from_data(X, Y[:50]),
        lambda X: gs.forecast(X, Y[:50]),
    ):
        with pytest.raises(
            gs.InputError, match="are constant, so that there is nothing to learn from"
        ):
            take(flat)


BELONG = (
    r"labels of a table belong to gs.forecast\(X, y\) and gs.MixtureGLM.from_data\(X,"
    r" y\); here labels are planted"
)
NETWORK = {"width_per_dim": 1.5, "samples_per_dim": 2.0, "ridge": 0.1}


@pytest.mark.parametrize(
    "make",
    [
        lambda: gs.InputRows(FULL, Y),
        lambda: gs.InputRows(FULL, Y[:, None]),
        lambda: gs.OneStep(target=Y, **NETWORK),
        lambda: gs.OneStep(target=Y.tolist(), **NETWORK),
        lambda: gs.OneStep(target=pandas.Series(Y), **NETWORK),
        lambda: gs.FewSteps(target=Y, **NETWORK),
        lambda: gs.Network(target=Y, width_per_dim=1.5, samples_per_dim=2.0),
        lambda: gs.OneStep(inputs=FULL, y=Y, **NETWORK),
        lambda: gs.FewSteps(inputs=FULL, labels=Y, **NETWORK),
        lambda: gs.Network(inputs=FULL, y=Y, width_per_dim=1.5, samples_per_dim=2.0),
    ],
)
def test_labels_are_sent_to_the_verb_that_takes_them(make):
    with pytest.raises(gs.InputError, match=BELONG) as refused:
        make()
    assert len(str(refused.value)) < 400


def test_a_target_of_another_length_is_no_list_of_labels():
    with pytest.raises(gs.InputError, match="12 finite numbers, one for each column"):
        gs.InputRows(FULL, np.ones(7))
