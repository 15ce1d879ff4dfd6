"""Verdicts of `giantstep.learnable`: the student's coefficients, signs and algorithm;
experiments beside them.
"""

import json
import math

import numpy as np
import pytest

import giantstep as gs
from giantstep.problems.learnability.prepared import PreparedTarget
from giantstep.problems.learnability.repetition import label_rule, repetition

EX2 = "(z1 + z1**2 + z2 - z2**2)/2"


def first_order(
    target, algorithm, inner_rate, activation="relu", second_layer=(1.0,), noise=0.0
):
    view = PreparedTarget.of(gs.Target(target))
    grid = label_rule(view.inner)
    return repetition(
        view.inner,
        grid,
        gs.Function(activation),
        second_layer,
        algorithm,
        inner_rate,
        noise,
    )


@pytest.mark.parametrize(
    ("target", "algorithm", "growth"),
    [
        ("h4", "extragradient", 0.0005455),
        ("h4", "squared", -0.000625),
        ("h2", "extragradient", 0.0071135),
        ("h2", "squared", 0.0079038),
    ],
)
def test_growth_rates_of_known_targets(target, algorithm, growth):
    (found,) = first_order(target, algorithm, 0.1)
    assert found.rate(0.01)[0] == pytest.approx(growth, abs=6e-8)
    assert float(np.abs(found.drift[0])) < 1e-12


def test_closed_form_of_the_extragradient_drift():
    """relu, a = 1: E[fbar(y) z] with fbar = c (y Phi(-lo) - pdf(lo)), lo = max(0, -rho
    y/c), c = 1 - rho.
    """
    from scipy.special import ndtr

    z = np.arange(-9, 9, 1e-4)
    weights = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * 1e-4
    y = z**3 - 3 * z
    c = 0.9
    lo = np.maximum(0, -0.1 * y / c)
    fbar = c * (y * ndtr(-lo) - np.exp(-lo * lo / 2) / math.sqrt(2 * math.pi))
    (found,) = first_order("h3", "extragradient", 0.1)
    assert found.drift[0] == pytest.approx(float(weights @ (fbar * z)), rel=1e-6)


def test_kinks_after_the_inner_step_of_an_activation_that_is_curved_beside_its_own():
    """The drift E[F z] by a dense rule over the field and z."""
    activation = gs.Function("relu(z)*tanh(z) + relu(z)")
    z = np.arange(-7, 7, 0.02)
    field = np.arange(-7, 7, 0.002) + 0.001
    weights = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * 0.02
    density = np.exp(-field * field / 2) / math.sqrt(2 * math.pi) * 0.002
    y = (z**3 - 3 * z + z**2)[:, None]
    moved = field + 0.1 * activation.derivative(field) * (y - activation(field))
    fbar = (activation.derivative(moved) * (y - activation(moved))) @ density
    found = gs.learnable("h3(z) + z**2", activation, "extragradient").data["drift"]
    assert found[0][0] == pytest.approx(float(weights @ (fbar * z)), rel=2e-3)


def test_without_an_inner_step_extragradient_is_plain():
    (twice,), (plain,) = (
        first_order("h3", "extragradient", 0.0),
        first_order("h3", "squared", 0.0),
    )
    assert twice.second == pytest.approx(plain.second, rel=1e-9)
    assert abs(twice.drift[0]) < 1e-12


def test_noise_adds_to_the_second_moment_only():
    (bare,), (noisy,) = (
        first_order("h3", "correlation", 0.0, noise=noise) for noise in (0.0, 0.7)
    )
    assert noisy.second - bare.second == pytest.approx(0.35, rel=1e-6)
    np.testing.assert_allclose(noisy.drift, bare.drift, atol=1e-12)


VERDICTS = [
    ("h3(z)", "relu", "squared", None, "never", "c_3 = 0 for relu"),
    ("h4(z)", "relu", "squared", None, "never", "a c_4 C_4 < 0"),
    ("h4(z)", "relu", "squared", [1.0, -1.0], "d^3", "c_4 C_4"),
    ("h3(z)", "h3", "correlation", None, "d^2", "c_3 C_3"),
    ("h2(z)", "relu", "correlation", None, "d log d", "c_2 C_2"),
    ("h3(z) + h4(z)", "relu", "squared", [-1.0], "d^3", "c_3 = 0 hides order 3"),
    ("h3(z)", "relu", "extragradient", None, "d", "nonlinear"),
    ("h3(z)", "relu", "sam", None, "d", "nonlinear"),
    ("h3(z)", "relu", "two-step", None, "d", "nonlinear"),
    ("h3(z)", "relu", "exponential", None, "d", "nonlinear"),
    ("h4(z)", "relu", "extragradient", None, "d log d", "grow"),
    (
        "sign(z1*z2*z3)",
        "relu",
        "extragradient",
        None,
        "never",
        "generative exponent is 3",
    ),
    ("h5(z1)*h5(z2)", "relu", "extragradient", None, "never", "shrink"),
    ("z1 + h3(z2)", "relu", "extragradient", None, "d", "nonlinear"),
    ("z1 + z1*z2", "relu", "squared", None, "d", "c_1 C_1"),
    (EX2, "relu", "giant-steps", None, "d", "2 steps"),
    ("z1 + z2*z3", "relu", "giant-steps", None, "d^2", "leap 2"),
    ("h3(z)", "relu", "giant-steps", None, "never", "c_3 = 0"),
    ("h3(z)", "relu", "reused", None, "d", "every direction"),
    ("z1*z2", "relu", "single-pass", None, "never", "symmetries"),
]


@pytest.mark.parametrize(
    ("target", "activation", "algorithm", "layer", "samples", "words"), VERDICTS
)
def test_verdicts(target, activation, algorithm, layer, samples, words):
    verdict = gs.learnable(target, activation, algorithm, layer)
    assert verdict.samples == samples
    assert words in verdict.reason and words in str(verdict)
    assert bool(verdict) is verdict.learned is (samples != "never")
    assert math.isinf(verdict.exponent) is (samples == "never")
    json.dumps(verdict.to_dict(), allow_nan=False)


def test_what_is_learned_in_part():
    verdict = gs.learnable("z1 + z1*z2", "tanh", "squared")
    assert (
        not verdict.learned and verdict.samples == "d" and math.isinf(verdict.exponent)
    )
    np.testing.assert_allclose(np.abs(verdict.hidden), [[0, 1]], atol=1e-9)
    assert "never: z2" in str(verdict) and "c_2 = 0" in verdict.reason


def test_one_sign_of_the_second_layer_learns_the_growing_direction_first():
    verdict = gs.learnable("z1*z2", "relu", "correlation")
    np.testing.assert_allclose(
        verdict.stages[0].directions, np.array([[1, 1]]) / math.sqrt(2), atol=1e-9
    )
    both = gs.learnable("z1*z2", "relu", "correlation", [1.0, -1.0])
    assert len(both.stages[0].directions) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("h3(z)", "relu", "adam"), "algorithm"),
        (("h3(z)", "sign", "squared"), "activation.*jumps"),
        (("h3(z)", "relu", "squared", [0.0]), "second_layer"),
        (("h3(z)", "relu", "squared", "ones"), "second_layer"),
        (("z1*z7", "relu", "squared"), "at most 6"),
        (
            ("h5(z1)*h5(z2)", "relu", "squared"),
            "no Hermite coefficient .* up to order 8",
        ),
        (
            ("sin(40*z)", "relu", "extragradient"),
            "no Hermite coefficient .* up to order 12",
        ),
        (
            ("h5(z1)*h5(z2)", "relu", "giant-steps"),
            "no Hermite coefficient .* up to order 8",
        ),
    ],
)
def test_bad_input(arguments, words):
    with pytest.raises(gs.InputError, match=words):
        gs.learnable(*arguments)
    with pytest.raises(gs.InputError, match="inner_rate"):
        gs.learnable("h3(z)", "relu", "sam", inner_rate=0.1)


# -- the experiment beside it ----------------------------------------------------------


def passes_over_samples(target, algorithm, *, dim, runs, tau, rate, inner_rate, seed=0):
    """One relu neuron, one sample at a time, many runs side by side: mean cosine and
    its standard error after tau d.
    """
    generator = np.random.default_rng(seed)
    w = generator.standard_normal((runs, dim))
    w[:, 0] = 0
    w /= np.linalg.norm(w, axis=1)[:, None]
    for _ in range(round(tau * dim)):
        x = generator.standard_normal((runs, dim))
        y = target(x[:, 0])
        field = np.einsum("ri,ri->r", w, x)
        force = (field > 0) * (y - np.maximum(field, 0))
        if algorithm == "extragradient":
            moved = field + inner_rate * np.einsum("ri,ri->r", x, x) / dim * force
            force = (moved > 0) * (y - np.maximum(moved, 0))
        w += rate / dim * force[:, None] * x
    cosine = w[:, 0] / np.linalg.norm(w, axis=1)
    return float(cosine.mean()), float(cosine.std(ddof=1) / math.sqrt(runs))


def test_h3_is_learned_only_with_repetition():
    """The initial speed of the verdict is seen by the extragradient run and is absent
    from plain SGD.
    """
    h3 = {"dim": 128, "runs": 300, "tau": 8.0, "rate": 0.02, "inner_rate": 0.1}
    verdict = gs.learnable("h3(z)", "relu", "extragradient", rate=h3["rate"])
    expected = -verdict.data["speed"] * h3["tau"]
    mean, error = passes_over_samples(lambda z: z**3 - 3 * z, "extragradient", **h3)
    assert (
        abs(mean - expected) < 3 * error + 0.15 * abs(expected)
        and abs(mean) > 5 * error
    )
    mean, error = passes_over_samples(lambda z: z**3 - 3 * z, "squared", **h3)
    assert abs(mean) < 3.5 * error


@pytest.mark.parametrize(
    ("target", "activation"),
    [(EX2, "relu"), ("z1 + z1*z2", "tanh"), ("z1*z2", "relu"), ("h3(z)", "relu")],
)
def test_giant_steps_of_the_experiment_confirm_the_verdict(target, activation):
    verdict = gs.learnable(target, activation, "giant-steps")
    fitted = gs.simulate(verdict.scenario(), dim=200, trials=8)
    cosine, error = (
        np.abs(fitted[name].values[-1]) for name in ("cosine", "cosine_stderr")
    )
    found = [stage.directions for stage in verdict.stages if stage.samples == "d"]
    rows = np.concatenate(found) if found else np.zeros((0, verdict.target.directions))
    for row in rows:
        signed = fitted["cosine"].values[-1] @ row
        assert np.max(np.abs(signed)) > 0.15
    for row in verdict.hidden:
        assert np.all(
            np.abs(fitted["cosine"].values[-1] @ row) < 4 * error.max() + 0.01
        )
    assert cosine.shape == error.shape


def test_the_experiment_beside_a_verdict():
    """H3 at a larger rate: no direction in one pass, one with repetition; the lengths
    follow the verdict's constant.
    """
    ends = {}
    for algorithm in ("squared", "extragradient"):
        verdict = gs.learnable("h3(z)", "relu", algorithm, rate=0.02)
        ends[algorithm] = verdict.experiment(64, runs=32, seed=1)
        assert "largest cosine" in ends[algorithm].attrs["text"]
    assert "50 d samples" in ends["squared"].attrs["text"]
    # 1.2 times 0.1 over the initial speed
    assert "52.56 d samples" in ends["extragradient"].attrs["text"]
    gap = float(ends["extragradient"].cosine[0] - ends["squared"].cosine[0])
    error = float(
        np.hypot(
            ends["extragradient"].cosine_stderr[0], ends["squared"].cosine_stderr[0]
        )
    )
    assert gap > 3 * error


def test_the_experiment_beside_giant_steps():
    found = gs.learnable(EX2, "relu", "giant-steps").experiment(80, runs=4)
    assert found.cosine.dims == ("direction",) and float(found.cosine.min()) > 0.2


def test_never_says_within_how_many_samples_and_steps():
    """Repetition finds a product of three signs in d log d samples, which few steps on
    O(d) samples do not.
    """
    parity = "z1*z2*z3"
    assert "samples  d log d" in str(gs.exponents(parity))
    few = "never within O(d) samples and a fixed number of steps, because"
    assert few in str(gs.learnable(parity, "relu", "reused"))
    assert few in str(gs.learnable("z1*z2", "relu", "single-pass"))
    assert "never within a fixed number of steps, because" in str(
        gs.learnable("h3(z)", "relu", "giant-steps")
    )
    assert ": never, because" in str(gs.learnable("h3(z)", "relu", "squared"))
