"""Covariances of inputs as they are given: from a table, in blocks, and what is
refused.
"""

import numpy as np
import pytest

import giantstep as gs


def refused(make):
    with pytest.raises(gs.InputError) as caught:
        make()
    return str(caught.value)


def test_the_covariance_of_a_table():
    """From rows back to the covariance they were drawn from."""
    rng = np.random.default_rng(0)
    root = np.sqrt(np.linspace(3, 0.2, 12))
    turn = np.linalg.qr(rng.standard_normal((12, 12)))[0]
    X = 5 + rng.standard_normal((100_000, 12)) * root @ turn
    twin = gs.InputCovariance.from_data(X, target_direction=turn[3])
    np.testing.assert_allclose(
        twin.eigenvalues, np.linspace(3, 0.2, 12) / 1.6, rtol=0.03
    )
    assert np.abs(np.asarray(twin.target)[0, 3]) == pytest.approx(1, abs=6e-3)


def test_a_table_is_reported(capsys):
    """Effective ranks and the tests of structured_inputs section 13 are printed."""
    rng = np.random.default_rng(0)
    # a mixture of scales
    X = rng.standard_normal((20_000, 10)) * rng.exponential(size=(20_000, 1))
    twin = gs.InputCovariance.from_data(X, np.eye(10)[2])
    printed = capsys.readouterr().out
    rows = gs.InputRows(X, np.eye(10)[2])
    assert printed == rows.report() + "\n"
    values = {line.split()[0]: line.split("  ")[1:] for line in printed.splitlines()}
    assert set(values) == {"d", "atoms", "r_eff", "r_4", "rows", "Var", "kurtosis"}
    # E s^4 = 24 and E s^2 = 2: |x|^2/d = s^2 has the variance (24 - 4)/4 where it would
    # be 2/10, z the kurtosis 3 * 6
    assert rows.row_tests().norm_excess == pytest.approx(5 / 0.2 + 6, rel=0.15)
    assert rows.row_tests().kurtosis[0] == pytest.approx(18, rel=0.25)
    assert rows.covariance() == twin and "kurtosis" not in twin.report()
    gs.InputCovariance.from_data(X, show=False)
    assert capsys.readouterr().out == ""


def test_correlated_directions_of_a_table_are_refused():
    X = np.random.default_rng(1).standard_normal((50, 6))
    for name, make in (
        ("target_direction", gs.InputCovariance.from_data),
        ("target", gs.InputRows),
    ):
        assert f"`{name}` must be directions without correlation" in refused(
            lambda make=make: make(X, np.eye(2, 6))
        )


@pytest.mark.parametrize(
    ("inputs", "part"),
    [
        (([-1, 2], [0.5, 0.5], [1, 0]), "`eigenvalues` must be numbers of at least 0"),
        (([1, 2], [0.5, 0.6], [1, 0]), "they sum to 1.1"),
        (([1, 2], [0.5, 0.5], [1, -1]), "`shares` must be 2 numbers of at least 0"),
        (([1, 0], [0.5, 0.5], [1, 1]), "0 on a block of eigenvalue 0"),
        (([1, 2], [1.0], [1, 0]), "`fractions` must be 2 numbers above 0"),
    ],
)
def test_bad_blocks(inputs, part):
    assert part in refused(lambda: gs.InputBlocks(*inputs))


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda X: X[:10], "at least 12 rows, twice its columns"),
        (
            lambda X: np.where(np.arange(6) == 2, np.nan, X),
            "finite in every place (column 2",
        ),
        (
            lambda X: np.where(np.arange(6) != 4, 1.0, X),
            "a table with at least 2 columns that vary (1 of them does)",
        ),
        (lambda X: X[0], "a table of rows"),
    ],
)
def test_bad_tables(make, part):
    X = np.random.default_rng(1).standard_normal((50, 6))
    assert part in refused(lambda: gs.InputCovariance.from_data(make(X)))


def test_a_target_in_the_null_space():
    X = np.random.default_rng(1).standard_normal((50, 6))
    X -= X.mean(axis=1, keepdims=True)
    assert "null space" in refused(lambda: gs.InputCovariance.from_data(X, np.ones(6)))
    assert "orthonormal rows" in refused(lambda: gs.InputCovariance([1, 2], [0.5, 0.5]))
