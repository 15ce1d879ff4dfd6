"""Callables that are not smooth: their kinks and jumps are found, and where they are
not, the error that is said bounds the error there is. The truth is the same function as
an expression, whose kinks are known.
"""

import warnings

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.maths.gaussian import functions
from giantstep.core.maths.gaussian.edges import find_edges
from giantstep.core.maths.gaussian.functions import Function

PARTS = {"relu": lambda u: np.maximum(u, 0), "abs": np.abs, "sign": np.sign}


def random_kinked(seed):
    """Return a sum of up to four parts with random kinks and slopes on a smooth
    function, and its expression.
    """
    rng = np.random.default_rng(seed)
    count = rng.integers(1, 5)
    kinks, strengths = (
        rng.uniform(-2.5, 2.5, count).round(6),
        (rng.normal(size=count) * 3.0).round(4),
    )
    names, smooth = rng.choice(list(PARTS), count), round(float(rng.normal()), 3)
    terms = [
        f"{strength!r}*{name}(z - {kink!r})"
        for strength, name, kink in zip(strengths.tolist(), names, kinks.tolist())
    ]

    def kinked(z):
        return smooth * np.tanh(z) + sum(
            c * PARTS[name](z - k) for c, name, k in zip(strengths, names, kinks)
        )

    return kinked, f"{smooth!r}*tanh(z) + {' + '.join(terms)}".replace("- -", "+ ")


A, S = np.tile(np.linspace(-1.7, 1.9, 9), 4), np.repeat([0.3, 0.7, 1.0, 1.6], 9)


def worst_error(f, truth):
    """Return the largest error of E f, E z f over sqrt(E f^2), and of E f^2 over
    itself.
    """
    (mean, slope, *_), (true_mean, true_slope, *_) = (
        f.moments(A, S),
        truth.moments(A, S),
    )
    second = f.second_moment(A, S)
    true_second = truth.second_moment(A, S)
    firsts = np.maximum(np.abs(mean - true_mean), np.abs(slope - true_slope)) / np.sqrt(
        true_second
    )
    return float(max(firsts.max(), np.abs(second / true_second - 1).max()))


MANY = pytest.mark.parametrize(
    "seeds", [range(30), pytest.param(range(30, 200), marks=pytest.mark.slow)], ids=str
)


@MANY
def test_kinked_callables_are_as_good_as_their_expressions(seeds):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in seeds:
            call, text = random_kinked(seed)
            f = Function(call)
            truth = Function(text)
            assert len(f.kinks) == len(truth.kinks) and np.allclose(
                f.kinks, truth.kinks, rtol=0, atol=1e-9
            ), text
            assert worst_error(f, truth) < 1e-11, text


@MANY
def test_the_error_that_is_said_bounds_the_error_there_is(monkeypatch, seeds):
    """With kinks that nobody finds; the places A and scales S are others than those
    where the error is measured.
    """
    monkeypatch.setattr(functions, "find_edges", lambda call: ())
    ratios = []
    for seed in seeds:
        call, text = random_kinked(seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            f = Function(call)
        error = worst_error(f, Function(text))
        assert error <= f.quadrature_error, (text, error, f.quadrature_error)
        assert len(caught) == 1 and f"about {f.quadrature_error:.0e} (measured" in str(
            caught[0].message
        )
        ratios.append(error / f.quadrature_error)
    assert np.median(ratios) > 0.02  # and it is no empty bound


def test_answers_of_kinked_callables_are_those_of_their_expressions():
    fields = {
        "target": "tanh(z)",
        "width_per_dim": 1.5,
        "samples_per_dim": 2.0,
        "ridge": 0.1,
        "noise": 0.1,
    }

    def kinked(z):
        return np.maximum(z - 0.31, 0) + 0.2 * np.abs(z + 0.7)

    text = "relu(z - 0.31) + 0.2*abs(z + 0.7)"
    for step in (
        gs.NoStep(),
        gs.MaximalStep(2.0),
        gs.MaximalStep(2.0, batch_per_dim=3.0),
    ):
        given, known = (
            float(gs.predict(gs.OneStep(activation=f, step=step, **fields)).test_error)
            for f in (kinked, text)
        )
        assert given == pytest.approx(known, rel=1e-8)
    given, known = (
        gs.predict(gs.FewSteps.example().replace(target=t, noise=0.1)).test_error
        for t in (kinked_target, text)
    )
    np.testing.assert_allclose(given, known, rtol=1e-9)


def kinked_target(z):
    return np.maximum(z[..., 0] - 0.31, 0) + 0.2 * np.abs(z[..., 0] + 0.7)


@pytest.mark.parametrize(
    ("call", "edges"),
    [
        (lambda z: np.maximum(z - 1 / 3, 0), [1 / 3]),
        (lambda z: np.maximum(z - 0.123, 0) ** 2, [0.123]),
        (lambda z: np.where(z > 0, z, np.expm1(np.minimum(z, 0))), [0.0]),
        (lambda z: np.sqrt(np.abs(z - 0.2)), [0.2]),
        (
            lambda z: np.maximum(z - 0.3, 0) - 1.1 * np.maximum(z - 0.3001, 0),
            [0.3, 0.3001],
        ),
        (
            lambda z: 5 * np.sign(z - 0.4) + 1e-3 * np.abs(z - 0.402),
            [0.4, 0.402],
        ),  # a weak edge behind a strong one
        (
            lambda z: z + np.maximum(z - 8.25, 0),
            [8.25],
        ),  # which no moment at A = 0 shows
        (lambda z: np.interp(z, [-1, 0, 2], [0, 1, 0]), [-1.0, 0.0, 2.0]),
        (np.round, np.arange(-15.5, 16)),
    ],
)
def test_edges_are_found(call, edges):
    np.testing.assert_allclose(find_edges(call), edges, rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    "call",
    [
        np.tanh,
        np.exp,
        lambda z: z**5 - 10 * z**3 + 15 * z,
        lambda z: np.tanh(1e5 * z),
        lambda z: np.sqrt(z**2 + 1e-8),
        lambda z: np.sin(500 * z),
        lambda z: (z**2 + 1e4) - 1e4,  # rounding of its own
        lambda z: np.tanh(z.astype(np.float32)).astype(float),
        lambda z: np.round(z, 2),  # no end of them
        lambda z: 0 * z,
    ],
)
def test_smooth_and_noisy_functions_have_no_edges(call):
    assert find_edges(call) == ()


def test_differences_are_not_taken_across_a_kink():
    f = Function(lambda z: np.abs(z - 0.3))
    near = 0.3 + np.array([-1e-3, -1e-7, 0.0, 1e-7, 1e-3])
    np.testing.assert_allclose(f.derivative(near), [-1, -1, 1, 1, 1], atol=1e-9)
