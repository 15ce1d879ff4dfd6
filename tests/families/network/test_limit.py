"""The one-step limit against reference values, closed forms, a second route and its own
symmetries.

References are the tables of the page spiked_features (the section is named at each
table), held to the digits printed there.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import giantstep as gs
from giantstep.core.readout import FiniteSize, ridge_errors, solve_first_order
from giantstep.core.scenario.answer import Answer

from .inside import answer_of, asked_of
from .one_direction_route import (
    FUNCTIONS,
    Problem,
    damped,
    effective_ridges,
    normal_moments,
    random_features,
    random_features_bulk,
)

FOUR = gs.Vocabulary([1, -0.5, 1.5, -2], [0.7, 0.1, 0.1, 0.1])


def solve(
    scenario: gs.OneStep, dim: Any = np.inf, theory: str | None = None, **fields: Any
) -> Answer:
    """Return the limit's answer, every point of it solved."""
    answer = answer_of(scenario, "errors", dim, {"theory": theory}, **fields)
    assert list(answer.status) == [""] * len(answer.status)
    return answer


def error_of(
    scenario: gs.OneStep, dim: Any = np.inf, theory: str | None = None, **fields: Any
) -> np.ndarray:
    return solve(scenario, dim, theory, **fields).values["test_error"]


def planted(
    activation: str,
    target: str,
    pi: list[float],
    u: list[float],
    s: list[float] | float,
    gamma: float,
    alpha: float,
    beta: float,
    ridge: float,
    noise: float = 0.0,
) -> gs.OneStep:
    """Return the scenario in the order of the tables of spiked_features."""
    return gs.OneStep(
        activation=activation,
        target=target,
        noise=noise,
        samples_per_dim=alpha,
        width_per_dim=beta,
        ridge=ridge,
        second_layer=gs.Vocabulary(u, pi),
        step=gs.PlantedSpike(strength=u, bulk=s, alignment=gamma),
    )


def network(
    activation: str,
    target: str,
    zeta: list[float],
    pi: list[float],
    rate: float,
    batch: float,
    alpha: float,
    beta: float,
    ridge: float,
    noise: float,
) -> gs.OneStep:
    return gs.OneStep(
        activation=activation,
        target=target,
        noise=noise,
        samples_per_dim=alpha,
        width_per_dim=beta,
        ridge=ridge,
        second_layer=gs.Vocabulary(zeta, pi),
        step=gs.MaximalStep(rate=rate, batch_per_dim=batch),
    )


# --- reference values -----------------------------------------------------------------

# spiked_features section 16: activation, target, pi, u, s, gamma, alpha, beta, ridge,
# noise; test, train, norm
ROWS: dict[str, tuple[tuple[Any, ...], tuple[float, float, float]]] = {
    "R1": (
        ("tanh", "sin", [1], [1.1], 1.05, 0.95, 1.5, 1, 0.1),
        (0.05214127, 0.02313166, 0.10191326),
    ),
    "R2": (
        ("relu", "tanh", [1], [1], 1, 0.5, 1.5, 1.5, 0.01),
        (0.57343370, 0.05214455, 2.3623669),
    ),
    "R3": (
        ("relu", "tanh", [0.9, 0.1], [1, -1], 1, 0.5, 1.5, 1.5, 0.01),
        (0.41851120, 0.02274931, 1.6414128),
    ),
    "R4": (
        (
            "relu",
            "tanh",
            [0.7, 0.1, 0.1, 0.1],
            [1, -0.5, 1.5, -2],
            1,
            0.5,
            1.5,
            1.5,
            0.01,
        ),
        (0.40648905, 0.01903714, 1.5315814),
    ),
    "R5": (
        ("erf", "sign", [0.5, 0.5], [1, 2], [1, 0.7], 0.7, 2, 0.7, 0.05),
        (0.69916424, 0.31341116, 2.1191606),
    ),
    "R6": (
        ("relu", "relu", [1], [1], 1, 0.5, 4, 4, 0.1),
        (0.10694249, 0.03669596, 0.24280123),
    ),
    "R7": (
        ("sign", "tanh", [0.6, 0.4], [0.8, -1.5], 1, 0.9, 1.2, 1.6, 0.03, 0.05),
        (0.21812569, 0.00550636, 0.24038950),
    ),
    "R8": (
        ("tanh", "sin", [1], [2], 1, 1, 1, 1, 1e-4, 0.1),
        (3.5671595, 0.01134609, 33.046602),
    ),
    "R9": (
        (
            "erf",
            "tanh",
            [0.4, 0.3, 0.3],
            [1, -0.5, 2],
            [1, 1.1, 0.9],
            0.8,
            0.5,
            1.5,
            1e-8,
            0.02,
        ),
        (0.19079965, 1.110916e-15, 0.28292860),
    ),
    "R10": (
        ("tanh", "sin", [1], [0], 1, 0.3, 1.5, 1, 0.1, 0.1),
        (0.40891498, 0.13759463, 0.83433175),
    ),
    "R11": (
        ("softplus", "relu", [0.5, 0.5], [1.5, -1.5], 1, 1, 3, 1.2, 0.02, 0.1),
        (0.19673843, 0.07832971, 0.52742083),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_reference_rows(name: str) -> None:
    arguments, expected = ROWS[name]
    answer = solve(planted(*arguments))
    found = [
        answer.values[variable][0] for variable in ("test_error", "train_error", "norm")
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert answer.residual[0] < 1e-10
    assert answer.values["identity"][0] < 1e-10  # spiked_features (4.7)


def test_order_parameters() -> None:
    first = solve(planted(*ROWS["R1"][0])).values
    expected = {
        "V1": 2.2009942013,
        "V2": 4.0301900115,
        "theta": 1.124785138,
        "t": 0.051942525,
        "psi": 0.1926530915,
        "Q1": 0.0937700905,
        "Q2": 0.1019132552,
        "objective": 0.0299258755,
    }
    for name, value in expected.items():
        assert first[name].ravel()[0] == pytest.approx(value, rel=5e-9), name
    fourth = solve(planted(*ROWS["R4"][0])).values
    table = {
        "V2": (16.73766375, 1.37113307, 2.42690387, 1.00825598),
        "theta": (0.76718448, -0.43756125, -0.29388795, -0.03095886),
        "psi": (0.4198489, 0.07008398, 0.05254903, 0.06328305),
        "Q2": (1.11522057, 0.14830852, 0.14926993, 0.11878238),
    }
    for name, values in table.items():
        np.testing.assert_allclose(fourth[name][0], values, rtol=1e-6, err_msg=name)


# spiked_features section 16: activation, target, zeta, pi, rate, batch, alpha, beta,
# ridge, noise; isotropic test error
NETWORKS = [
    (("tanh", "sin", [1], [1], 3, 0.5, 1.5, 1, 0.1, 0), 0.265101),
    (("tanh", "sin", [1], [1], 3, 2, 1.5, 1, 0.1, 0), 0.131504),
    (("tanh", "sin", [1], [1], 3, 100, 1.5, 1, 0.1, 0), 0.026612),
    (
        (
            "erf",
            "tanh",
            [1, -0.5, 1.5, -2],
            [0.7, 0.1, 0.1, 0.1],
            2,
            0.5,
            1.5,
            1.5,
            0.01,
            0,
        ),
        0.299993,
    ),
    (("sin", "tanh", [1, -0.6], [0.5, 0.5], 2.5, 1, 2, 1.3, 0.05, 0.1), 0.471440),
    (("relu", "tanh", [1, -1], [0.9, 0.1], 2, 0.5, 1.5, 1.5, 0.01, 0), 0.488372),
    (("relu", "tanh", [1, -1], [0.9, 0.1], 2, 2, 1.5, 1.5, 0.01, 0), 0.240433),
    (("relu", "relu", [1], [1], 1.5, 1, 2, 1.3, 0.05, 0.1), 0.366737),
    (("relu", "relu", [1], [1], 1.5, 100, 2, 1.3, 0.05, 0.1), 0.301014),
]


@pytest.mark.parametrize(("arguments", "expected"), NETWORKS)
def test_isotropic_map(arguments: tuple[Any, ...], expected: float) -> None:
    assert error_of(network(*arguments), theory="isotropic")[0] == pytest.approx(
        expected, abs=5.1e-7
    )


def test_large_batch() -> None:
    """Equation spiked_features (5.5), whose c3 term is in neither paper; the printed
    numbers have 8 digits.
    """
    first = solve(network("tanh", "sin", [1], [1], 3, np.inf, 1.5, 1, 0.1, 0)).values
    second = solve(
        network("relu", "relu", [1], [1], 1.5, np.inf, 2, 1.3, 0.05, 0.1)
    ).values
    found = [
        values[name][0]
        for values in (first, second)
        for name in ("test_error", "train_error")
    ]
    np.testing.assert_allclose(
        found, [0.02233818, 0.01502385, 0.27687782, 0.06806130], rtol=0, atol=5.1e-9
    )


def test_published_curves() -> None:
    """Figures 2 and 3 of Dandi et al., the notebook curve of Cui et al.:
    spiked_features section 15, six digits.
    """
    ratios = np.linspace(0.3, 2.5, 15)
    curves = {
        1: (
            [1],
            [1],
            (
                ".524416 .575078 .605028 .611241 .590811 .547779 .494535 .443369"
                " .400234 .365914 .339090 .318081 .301449 .288096 .277219"
            ),
        ),
        2: (
            [0.9, 0.1],
            [1, -1],
            (
                ".350152 .384146 .414906 .432371 .428026 .402356 .365971 .329801"
                " .298960 .274216 .254693 .239246 .226887 .216863 .208616"
            ),
        ),
        4: (
            [0.7, 0.1, 0.1, 0.1],
            [1, -0.5, 1.5, -2],
            (
                ".329478 .356878 .388600 .412631 .414451 .391285 .355505 .319935"
                " .289972 .266165 .247486 .232739 .220944 .211367 .203476"
            ),
        ),
    }
    for pi, u, printed in curves.values():
        scenario = planted("relu", "tanh", pi, u, 1, 0.5, 1.0, 1.5, 0.01)
        found = error_of(scenario, samples_per_dim=1.5 * ratios)
        np.testing.assert_allclose(
            found, [float(number) for number in printed.split()], rtol=0, atol=5.1e-7
        )
    third = planted("relu", "relu", [1], [1], 1, 0.5, 1, 4, 0.1)
    printed = [0.180888, 0.125849, 0.106942, 0.099173, 0.095206, 0.092796, 0.091126]
    ratios = np.array([0.3, 0.65, 1, 1.35, 1.7, 2.05, 2.4])
    np.testing.assert_allclose(
        error_of(third, samples_per_dim=4 * ratios), printed, rtol=0, atol=5.1e-7
    )
    notebook = network("tanh", "sin", [1], [1], 3, 20, 1, 1, 0.1, 0)
    found = error_of(
        notebook, theory="isotropic", samples_per_dim=[0.2, 0.9, 1.6, 2.3, 3.0, 1.5]
    )
    printed = [0.048483, 0.042504, 0.037311, 0.034305, 0.032518, 0.037896]
    np.testing.assert_allclose(found, printed, rtol=0, atol=5.1e-7)


@pytest.mark.usefixtures("independent_means")
def test_finite_size_option() -> None:
    """The crossover (spiked_features section 4.4) from random features to the spike,
    five printed digits.
    """
    strengths = [0, 0.03, 0.06, 0.12, 0.25, 0.5]
    scenario = planted("tanh", "sin", [1], [1], 1, 1, 1.5, 1.2, 0.1).replace(
        step=gs.PlantedSpike(strength=1.0)
    )
    bare = error_of(scenario, step__strength=strengths)
    finite = error_of(scenario, dim=500, step__strength=strengths)
    np.testing.assert_allclose(
        bare,
        [0.24222, 0.09315, 0.09280, 0.09140, 0.08548, 0.06628],
        rtol=0,
        atol=5.1e-6,
    )
    np.testing.assert_allclose(
        finite,
        [0.24222, 0.20206, 0.15153, 0.11133, 0.09053, 0.06772],
        rtol=0,
        atol=5.1e-6,
    )


@pytest.mark.usefixtures("independent_means")
def test_gaussian_second_layer() -> None:
    """As spiked_features section 10; the bare limit has four printed digits and warns
    that it is of little use.
    """
    scenario = planted("tanh", "sin", [1], [1], 1, 0.9, 1.5, 1.2, 0.05, 0.05)
    scenario = scenario.replace(
        second_layer="gaussian", step=gs.PlantedSpike(strength=1.5, alignment=0.9)
    )
    np.testing.assert_allclose(
        error_of(scenario, dim=[1000, 4000]), [0.15350, 0.15196], rtol=0, atol=5.1e-6
    )
    bare = solve(scenario)
    assert bare.values["test_error"][0] == pytest.approx(0.1497, abs=5.1e-5)
    assert any("logarithmically" in warning for warning in bare.warnings)


def test_misclassified() -> None:
    """The 0/1 error of the ridge fit of signs (spiked_features section 16, last line),
    and the same by sampling.
    """
    answer = solve(planted("tanh", "sign(z)", [1], [1.2], 1, 0.8, 1.5, 1.2, 0.3)).values
    assert answer["test_misclassified"][0] == pytest.approx(0.17466320, abs=5.1e-9)
    draws = np.random.default_rng(0)
    problem = Problem("tanh", "sign", [1], [1.2], [1], 0.8, 1.5, 1.2, 0.3)
    count = 4000
    kappas = draws.normal(size=count)
    z = draws.normal(size=(2, 200))
    wrong = []
    for kappa in kappas:  # f and <w*,x> given kappa, drawn from the order parameters
        mu0, mu1, mu2, *_ = problem.split(problem.functions(kappa))
        along = answer["psi"][0] @ mu1
        spread = mu1 @ answer["Q1"][0] @ mu1 + mu2 @ answer["Q2"][0] - along**2
        f = (
            answer["theta"][0] @ mu0
            + kappa * answer["t"][0] @ mu1
            + along * z[0]
            + np.sqrt(spread) * z[1]
        )
        wrong.append(np.mean(np.sign(f) != np.sign(0.8 * kappa + 0.6 * z[0])))
    assert np.mean(wrong) == pytest.approx(
        answer["test_misclassified"][0], abs=4 * np.std(wrong) / np.sqrt(count) + 0.01
    )


# --- ridgeless ------------------------------------------------------------------------


def ridgeless(alpha: float, ridge: float) -> gs.OneStep:
    return planted(
        "relu",
        "tanh",
        [0.7, 0.1, 0.1, 0.1],
        [1, -0.5, 1.5, -2],
        1,
        0.5,
        alpha,
        1.2,
        ridge,
        0.1,
    )


def test_ridgeless_interpolates() -> None:
    answer = solve(ridgeless(0.6, 0.0)).values
    assert answer["test_error"][0] == pytest.approx(0.7656765889, abs=5.1e-11)
    assert answer["train_error"][0] == 0
    assert error_of(ridgeless(0.6, 1e-8))[0] == pytest.approx(0.7656763643, abs=5.1e-11)


@pytest.mark.parametrize("alpha", [0.1, 0.6, 1.1, 1.3, 2.0, 8.0])
def test_ridgeless_is_the_limit(alpha: float) -> None:
    """The gap closes linearly in the ridge; its slope grows towards n = p (about 1e4 at
    8% from it).
    """
    exact = error_of(ridgeless(alpha, 0.0))[0]
    gaps = np.abs(
        [error_of(ridgeless(alpha, ridge))[0] - exact for ridge in (1e-6, 1e-7)]
    )
    assert gaps[0] < 1e-2
    assert gaps[1] == pytest.approx(gaps[0] / 10, rel=0.05, abs=1e-12)


def test_peak_at_the_interpolation_threshold() -> None:
    """At n = p the error grows as C/sqrt(ridge) with C = 0.070116 (spiked_features
    section 11).
    """
    ridges = np.array([1e-8, 1e-10, 1e-12])
    scaled = error_of(ridgeless(1.2, 0.1), ridge=ridges) * np.sqrt(ridges)
    # six digits are printed
    assert np.all(np.abs(scaled / 0.070116 - 1) < [1e-4, 2e-5, 2e-5])


def test_close_to_the_threshold() -> None:
    """A hair's breadth from n = p Newton first runs far above the solution; these
    points once stalled.
    """
    near = np.concatenate(
        [1 - np.geomspace(1e-6, 1e-1, 9), 1 + np.geomspace(1e-6, 1e-1, 9)]
    )
    scenario = gs.OneStep(
        activation="gelu",
        target="z",
        noise=0.05,
        width_per_dim=2.0,
        samples_per_dim=1.0,
        ridge=1,
        second_layer=gs.Vocabulary([1]),
    )
    for ridge in (1e-10, 1e-7, 1e-4):
        answer = solve(scenario, samples_per_dim=2 * near, ridge=ridge)
        assert answer.residual.max() < 1e-10
        # V reaches 1e5: half its digits are gone
        assert answer.values["identity"].max() < 1e-7
        expected = [
            random_features_bulk("gelu", "linear", 2 * x, 2.0, ridge, 0.05)[0]
            for x in near
        ]
        np.testing.assert_allclose(answer.values["test_error"], expected, rtol=1e-7)


# --- a second route -------------------------------------------------------------------


def second_problem(name: str, dim: float = np.inf) -> Problem:
    activation, target, pi, u, s, *rest = ROWS[name][0]
    return Problem(
        activation, target, pi, u, list(np.broadcast_to(s, len(pi))), *rest, dim=dim
    )


def assert_same(name: str, tolerance: float) -> None:
    found = damped(second_problem(name))
    answer = solve(planted(*ROWS[name][0])).values
    for variable, value in (
        ("test_error", found.test),
        ("train_error", found.train),
        ("objective", found.objective),
    ):
        assert answer[variable][0] == pytest.approx(value, rel=tolerance), variable
    for variable in ("V1", "V2", "Q1", "Q2", "t", "psi"):
        expected = getattr(found, variable)
        np.testing.assert_allclose(
            answer[variable][0],
            expected,
            rtol=tolerance,
            atol=tolerance * np.max(np.abs(expected)),
            err_msg=variable,
        )


@pytest.mark.parametrize("name", ["R1", "R3", "R5", "R6"])
def test_adaptive_quadrature_and_plain_iteration(name: str) -> None:
    """Both routes stop at 1e-13; the quadratures agree to better than 1e-10."""
    assert_same(name, 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["R2", "R4", "R7", "R8", "R10", "R11"])
def test_adaptive_quadrature_and_plain_iteration_everywhere(name: str) -> None:
    assert_same(name, 1e-9)


@pytest.mark.usefixtures("independent_means")
@pytest.mark.parametrize(("name", "dim"), [("R1", 200), ("R3", 1000)])
def test_effective_ridges(name: str, dim: int) -> None:
    """The Nu-Q form has other unknowns, and its errors come from explicit derivatives
    of the objective.
    """
    found = effective_ridges(second_problem(name, dim))
    answer = solve(planted(*ROWS[name][0]), dim=dim).values
    assert answer["test_error"][0] == pytest.approx(found.test, rel=1e-9)
    assert answer["train_error"][0] == pytest.approx(found.train, rel=1e-9)
    assert answer["objective"][0] == pytest.approx(found.objective, rel=1e-9)


@pytest.mark.usefixtures("independent_means")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dim"), [("R4", 500), ("R5", 300), ("R7", 500), ("R11", 250)]
)
def test_effective_ridges_everywhere(name: str, dim: int) -> None:
    found = effective_ridges(second_problem(name, dim))
    answer = solve(planted(*ROWS[name][0]), dim=dim).values
    assert answer["test_error"][0] == pytest.approx(found.test, rel=1e-8)
    assert answer["train_error"][0] == pytest.approx(found.train, rel=1e-8)


@pytest.mark.parametrize(
    ("activation", "target", "u", "gamma", "alpha", "ridge"),
    [
        ("sin", "tanh", 3, 0.7, 0.6, 0.1),
        ("erf", "relu", 3, 0.5, 0.6, 1e-3),
        ("tanh", "sin", 2, 1, 0.6, 1e-5),
        ("tanh", "sin", 5, 0.9, 0.6, 1e-5),
        ("relu", "tanh", 5, 0.5, 1.0, 1e-3),
        ("relu", "relu(z - 1)", 2, 0.9999, 1.5, 0.1),
    ],
)
def test_rule_for_the_expectations(
    activation: str, target: str, u: float, gamma: float, alpha: float, ridge: float
) -> None:
    """Twice the nodes change the answer by less than 1e-9; half the nodes would be off
    by up to 1e-5 here.
    """
    scenario = planted(activation, target, [1], [u], 1, gamma, alpha, 1, ridge, 0.05)
    asked, _ = asked_of(scenario, finer=2.0)
    finer = ridge_errors(
        solve_first_order(asked.ridge_equations(asked.features)),
        FiniteSize(np.zeros(1)),
    )
    assert error_of(scenario)[0] == pytest.approx(finer.test[0], rel=1e-9)


# --- closed forms and limits ----------------------------------------------------------


@pytest.mark.parametrize(
    ("activation", "target"),
    [("tanh", "sin"), ("relu", "tanh"), ("erf", "relu"), ("softplus", "sign")],
)
@pytest.mark.parametrize(
    ("alpha", "beta", "ridge", "noise"),
    [(1.5, 1.0, 0.1, 0.1), (0.4, 3.0, 1e-3, 0.0), (4.0, 0.5, 2.0, 0.3)],
)
def test_random_features(
    activation: str, target: str, alpha: float, beta: float, ridge: float, noise: float
) -> None:
    """Mei and Montanari's closed form, and the scalar root of step_size_regimes section
    3; 1e-12 is rounding.
    """
    scenario = gs.OneStep(
        activation=activation,
        target=target,
        noise=noise,
        samples_per_dim=alpha,
        width_per_dim=beta,
        ridge=ridge,
        second_layer=gs.Vocabulary([1]),
    )
    values = solve(scenario).values
    test, train, objective = random_features_bulk(
        activation, target, alpha, beta, ridge, noise
    )
    np.testing.assert_allclose(
        [values[name][0] for name in ("test_error", "train_error", "objective")],
        [test, train, objective],
        rtol=1e-12,
    )
    assert random_features(
        activation, target, alpha, beta, ridge, noise
    ) == pytest.approx(test, rel=1e-12)


@pytest.mark.parametrize("spike", [0.0, 0.7, 3.0])
@pytest.mark.parametrize(("alpha", "beta"), [(0.5, 0.4), (3.0, 0.4), (2.0, 5.0)])
def test_linear_activation_is_linear_regression(
    spike: float, alpha: float, beta: float
) -> None:
    """A linear network sees a linear target through p random directions; with u = 0
    that is a closed form.

    With a spike on the target direction that direction is learnt freely, and only noise
    is left to pay for.
    """
    ridge = 0.05
    noise = 0.2
    scenario = planted(
        "linear", "linear", [1], [spike], 1, 1, alpha, beta, ridge, noise
    )
    values = solve(scenario).values
    if spike == 0:
        tiny = 1e-13  # the closed form divides by E sigma^2 - c1^2, which is 0 here
        q = beta / alpha
        shift = ridge * beta / alpha

        def trace(nu: float) -> float:
            b = nu + 1 - beta
            return 2 / (b + np.sqrt(b**2 + 4 * beta * nu))

        low = shift * tiny
        high = shift + q * 2
        for _ in range(400):
            nu = 0.5 * (low + high)
            if nu * (1 - q * (1 - nu * trace(nu))) < shift:
                low = nu
                high = high
            else:
                low = low
                high = nu
        V = 1 + noise - beta * (1 - nu * trace(nu))
        assert values["objective"][0] == pytest.approx(shift / nu * V, rel=1e-9)
    else:
        assert values["test_error"][0] >= noise
        assert values["psi"][0, 0] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("activation", "target", "gamma"),
    [("relu", "tanh", 0.5), ("tanh", "sin", 1.0), ("erf", "relu", -0.3)],
)
def test_infinite_ridge_projects_on_the_means(
    activation: str, target: str, gamma: float
) -> None:
    """Only the unpenalised means survive: test -> E hh - |projection of h on
    span(mu0)|^2 + O(1/ridge).
    """
    pi = [0.6, 0.4]
    u = [1.0, -1.7]
    problem = Problem(activation, target, pi, u, [1, 1], gamma, 1.5, 1.2, 1e9, 0.1)

    def moments(kappa: float) -> np.ndarray:
        mu0, _, _, h, _, hh = problem.split(problem.functions(kappa))
        return np.concatenate([np.outer(mu0, mu0).ravel(), mu0 * h, [hh]])

    found = problem.mean(moments)
    projection = (
        found[4:6]
        @ np.linalg.lstsq(found[:4].reshape(2, 2), found[4:6], rcond=1e-13)[0]
    )
    scenario = planted(activation, target, pi, u, 1, gamma, 1.5, 1.2, 1e9, 0.1)
    assert error_of(scenario)[0] == pytest.approx(found[6] - projection, rel=1e-7)


def test_infinite_data() -> None:
    """As spiked_features section 11: 0.2475274651; what is left at finite samples falls
    as 1/alpha.
    """
    excess = error_of(ridgeless(1, 1e-3), samples_per_dim=[1e6, 1e7]) - 0.2475274651
    assert excess[1] == pytest.approx(0, abs=1e-7)
    assert excess[1] == pytest.approx(excess[0] / 10, abs=2e-9)


def test_infinite_width() -> None:
    """beta -> inf is kernel regression: V2 = pi/lambda, V1 = (lambda/pi + alpha E[mu1
    mu1^T/(1+V)])^-1.
    """
    pi = np.array([0.6, 0.4])
    u = [1.0, -1.5]
    alpha = 1.4
    ridge = 0.3
    problem = Problem("relu", "tanh", list(pi), u, [1, 1], 0.5, alpha, 1.0, ridge)
    V1 = np.diag(pi) / ridge
    for _ in range(200):

        def moment(kappa: float) -> np.ndarray:
            _, mu1, mu2, *_ = problem.split(problem.functions(kappa))
            return np.outer(mu1, mu1).ravel() / (1 + mu1 @ V1 @ mu1 + mu2 @ pi / ridge)

        V1 = np.linalg.inv(
            ridge * np.diag(1 / pi) + alpha * problem.mean(moment).reshape(2, 2)
        )
    # in spiked_features (3.4) the sum over the d directions is 1/beta of the width:
    # V1 = lim beta V1(beta)/beta
    wide = solve(planted("relu", "tanh", list(pi), u, 1, 0.5, alpha, 1e7, ridge)).values
    np.testing.assert_allclose(wide["V2"][0], pi / ridge, rtol=1e-6)
    np.testing.assert_allclose(wide["V1"][0], V1, rtol=1e-6)


# --- symmetries -----------------------------------------------------------------------

SCALARS = ("test_error", "train_error", "objective", "norm", "test_misclassified")


def assert_equal_answers(
    first: gs.OneStep, second: gs.OneStep, tolerance: float = 1e-11, **settings: Any
) -> None:
    a = solve(first, **settings).values
    b = solve(second, **settings).values
    for name in SCALARS:
        np.testing.assert_allclose(a[name], b[name], rtol=tolerance, err_msg=name)


@pytest.mark.parametrize("dim", [np.inf, 300])
def test_blocks_may_be_split_and_permuted(dim: float) -> None:
    rest = (0.5, 1.5, 1.2, 0.02, 0.1)
    whole = planted("relu", "tanh", [0.6, 0.4], [1, -1.5], 1, *rest)
    split = planted("relu", "tanh", [0.25, 0.4, 0.35], [1, -1.5, 1], 1, *rest)
    swapped = planted("relu", "tanh", [0.4, 0.6], [-1.5, 1], 1, *rest)
    assert_equal_answers(whole, split, dim=dim)
    assert_equal_answers(whole, swapped, dim=dim)
    order = solve(swapped).values["Q2"][0, ::-1]
    np.testing.assert_allclose(solve(whole).values["Q2"][0], order, rtol=1e-10)


@pytest.mark.parametrize("activation", ["tanh", "erf", "sin", "h3(z)"])
def test_odd_activation_does_not_see_signs(activation: str) -> None:
    rest = (0.6, 1.5, 1.2, 0.05, 0.1)
    plain = planted(activation, "tanh", [0.6, 0.4], [1, 1], 1, *rest)
    flipped = planted(activation, "tanh", [0.6, 0.4], [1, -1], 1, *rest)
    single = planted(activation, "tanh", [1], [1], 1, *rest)
    assert_equal_answers(plain, flipped, 1e-10)
    assert_equal_answers(plain, single, 1e-10)


def test_mirrored_spike() -> None:
    """(u, gamma) -> (-u, -gamma) renames v; a negative bulk is a mirrored first
    layer.
    """
    rest = (1.5, 1.2, 0.05, 0.1)
    first = planted("relu", "tanh", [0.6, 0.4], [1, -1.5], 1, 0.6, *rest)
    assert_equal_answers(
        first, planted("relu", "tanh", [0.6, 0.4], [-1, 1.5], 1, -0.6, *rest)
    )
    assert_equal_answers(
        first, planted("relu", "tanh", [0.6, 0.4], [1, -1.5], -1, 0.6, *rest)
    )


def test_without_a_spike_the_alignment_does_not_matter() -> None:
    scenarios = [
        planted("relu", "tanh", [0.6, 0.4], [0, 0], 1, gamma, 1.5, 1.2, 0.05, 0.1)
        for gamma in (-1, 0, 0.3, 1)
    ]
    untrained = scenarios[0].replace(step=gs.NoStep())
    resting = scenarios[0].replace(step=gs.MaximalStep(rate=0.0))
    isotropic = scenarios[0].replace(step=gs.MaximalStep(rate=0.0, batch_per_dim=2.0))
    for other in (*scenarios[1:], untrained, resting, isotropic):
        a = solve(scenarios[0]).values
        b = solve(other).values
        for name in ("test_error", "train_error", "norm"):
            np.testing.assert_allclose(a[name], b[name], rtol=1e-11)


@pytest.mark.parametrize("second_layer", [gs.Vocabulary([1.0]), FOUR])
def test_points_do_not_depend_on_their_batch(second_layer: gs.Vocabulary) -> None:
    """Alone, in a batch of 150 (more than one chunk), and in another order: the same to
    the last digits.

    One point lies at n = 1.01 p with a ridge of 6e-7: its error moves 75 times as much,
    relatively, as n does, so that rounding is seen 75 times (3e-13 under one BLAS
    kernel); the other 149 are the same to the last bit.
    """
    scenario = gs.OneStep(
        activation="relu",
        target="tanh",
        width_per_dim=1,
        samples_per_dim=1,
        ridge=1,
        noise=0.05,
        second_layer=second_layer,
        step=gs.PlantedSpike(strength=1.0, alignment=0.5),
    )
    draws = np.random.default_rng(1)
    fields = {
        "samples_per_dim": 10 ** draws.uniform(-1, 1, 150),
        "width_per_dim": 10 ** draws.uniform(-1, 1, 150),
        "ridge": 10 ** draws.uniform(-8, 1, 150),
        "step__strength": draws.choice([0, 0.5, 1, 7], 150),
    }
    together = solve(scenario, **fields).values
    order = draws.permutation(150)
    shuffled = solve(
        scenario, **{name: values[order] for name, values in fields.items()}
    ).values
    for name in SCALARS:
        np.testing.assert_allclose(
            shuffled[name], together[name][order], rtol=1e-12, atol=0
        )
    for place in (0, 63, 64, 149):
        alone = solve(
            scenario, **{name: values[[place]] for name, values in fields.items()}
        ).values
        for name in SCALARS:
            np.testing.assert_allclose(
                alone[name][0], together[name][place], rtol=1e-12, atol=0
            )


def test_packed_and_kernel_form_agree() -> None:
    scenario = planted(
        "relu",
        "tanh",
        [0.7, 0.1, 0.1, 0.1],
        [1, -0.5, 1.5, -2],
        1,
        0.5,
        1.5,
        1.5,
        0.01,
        0.1,
    )
    asked, seen = asked_of(scenario, readout__ridge=[0.01, 1e-4, 10.0])
    equations = asked.ridge_equations(asked.features)
    size = FiniteSize(np.array([0.0, 1 / 500, 0.0]))
    answers = []
    for packed in (True, False):
        first = solve_first_order(equations, packed=packed)
        answers.append(
            dataclasses.asdict(ridge_errors(first, size, packed=packed, at_nodes=True))
        )
        answers[-1]["along"] = answers[-1]["along"][
            :, :, np.abs(seen.features.kappa[0, 0]) < 4
        ]
    for name, values in answers[0].items():
        scale = np.max(np.abs(values))
        if name != "identity":
            np.testing.assert_allclose(
                answers[1][name], values, rtol=1e-10, atol=1e-10 * scale, err_msg=name
            )


# --- derivatives ----------------------------------------------------------------------


@pytest.mark.usefixtures("independent_means")
@pytest.mark.parametrize("name", ["R1", "R4", "R5", "R7"])
@pytest.mark.parametrize("dim", [np.inf, 400])
def test_derivatives_of_the_objective(name: str, dim: float) -> None:
    """The objective is a minimum, so its slope in the ridge is the norm: p/n |a|^2/p;
    train is what is left.

    Five-point differences with relative step 1e-3 are good to about 1e-10.
    """
    scenario = planted(*ROWS[name][0])
    ridge = scenario.ridge
    ratio = scenario.samples_per_dim / scenario.width_per_dim
    step = 1e-3 * ridge
    values = solve(scenario, dim=dim, ridge=ridge + step * np.arange(-2, 3)).values
    slope = values["objective"] @ [1, -8, 0, 8, -1] / (12 * step)
    assert slope == pytest.approx(values["norm"][2] / ratio, rel=1e-8)
    assert values["objective"][2] - ridge * slope == pytest.approx(
        values["train_error"][2], rel=1e-7
    )


@pytest.mark.parametrize("name", ["R1", "R5"])
def test_test_error_is_the_slope_in_the_noise(name: str) -> None:
    """d train/d noise and d objective/d noise: the objective is linear in the noise
    with slope E 1/(1+V).
    """
    scenario = planted(*ROWS[name][0])
    values = solve(scenario, noise=[0.0, 0.5, 1.0]).values
    for variable in ("test_error", "train_error", "objective", "norm"):
        low, middle, high = values[variable]
        assert middle == pytest.approx((low + high) / 2, rel=1e-12), variable
        assert high > low
    slope = values["objective"][2] - values["objective"][0]
    kappa_mean = damped(
        second_problem(name)
    ).V2  # first order alone: V does not know the labels
    np.testing.assert_allclose(values["V2"][0], kappa_mean, rtol=1e-9)
    assert 0 < slope < 1


# --- random scenarios -----------------------------------------------------------------

ACTIVATIONS = [
    "relu",
    "tanh",
    "erf",
    "sign",
    "softplus",
    "sin",
    "gelu",
    "h2(z)",
    "abs(z)",
    "sigmoid",
    "linear",
    "h3(z)",
]
TARGETS = ["tanh", "sin", "relu", "sign(z)", "h2(z)", "relu(z - 1)", "linear", "abs(z)"]


@st.composite
def scenarios(draw: st.DrawFn) -> gs.OneStep:
    def logarithmic(low: float, high: float) -> float:
        return float(10 ** draw(st.floats(np.log10(low), np.log10(high))))

    k = draw(st.integers(1, 5))
    weights = np.array([draw(st.floats(0.05, 1)) for _ in range(k)])
    zeta = [draw(st.floats(-3, 3)) for _ in range(k)]
    activation = draw(st.sampled_from(ACTIVATIONS))
    kind = draw(st.sampled_from(["none", "planted", "maximal"]))
    step: Any = gs.NoStep()
    if kind == "planted":
        step = gs.PlantedSpike(
            strength=draw(st.sampled_from([0.0, 0.1, 1.0, 3.0, 10.0])),
            bulk=draw(st.sampled_from([1.0, 0.5, -1.0, 2.0])),
            alignment=draw(st.floats(-1, 1)),
        )
    elif kind == "maximal" and activation != "sign":
        step = gs.MaximalStep(rate=draw(st.floats(-5, 5)))
    return gs.OneStep(
        activation=activation,
        target=draw(st.sampled_from(TARGETS)),
        noise=draw(st.sampled_from([0.0, 0.1, 1.0])),
        width_per_dim=logarithmic(0.03, 30),
        samples_per_dim=logarithmic(0.01, 1e3),
        ridge=logarithmic(1e-10, 1e4),
        second_layer=gs.Vocabulary(zeta, (weights / weights.sum()).tolist()),
        step=step,
    )


def check_sanity(scenario: gs.OneStep, dim: float) -> str:
    """Check what is a theorem at a solved point; return the status."""
    answer = answer_of(scenario, dim=dim)
    values = {name: array[0] for name, array in answer.values.items()}
    status = str(answer.status[0])
    if status:
        return status
    null = values["null_error"]
    assert answer.residual[0] <= 1e-10
    assert all(
        np.all(np.isfinite(values[name])) for name in values if name not in ("V1", "V2")
    )
    assert values["test_error"] >= scenario.noise
    assert (
        -1e-12 * null
        <= values["train_error"]
        <= values["test_error"] * (1 + 1e-9) + 1e-12 * null
    )
    assert values["train_error"] <= values["objective"] + 1e-12 * null
    assert values["objective"] <= null * (1 + 1e-9)  # a = 0 is a candidate
    assert np.all(values["Q2"] >= -1e-8 * values["norm"] - 1e-12 * null)
    assert 0 <= values["test_misclassified"] <= 1
    return ""


@settings(max_examples=150, deadline=None)
@given(scenario=scenarios(), dim=st.sampled_from([np.inf, 500.0]))
def test_any_scenario_is_solved_or_says_why(scenario: gs.OneStep, dim: float) -> None:
    """Where it is not solved there is a reason: digits lost to a singular design, or a
    cancelled bulk.
    """
    reason = check_sanity(scenario, dim)
    assert reason == "" or reason.startswith(
        ("digits lost", "residual", "the step cancels", "the solution")
    )
    ordinary = scenario.ridge > 1e-6 and scenario.activation.polynomial is None
    if ordinary and np.isfinite(dim):  # at a finite size the design is never singular
        assert reason in (
            "",
            "the step cancels the initial weights of a block (bulk scale s = 0)",
        )


@pytest.mark.parametrize(
    ("scenario", "why"),
    [
        (
            planted("tanh", "sin", [1], [20], 1, 0.9, 0.6, 1.0, 1e-8, 0.05),
            "saturated, tiny ridge, n < p",
        ),
        (
            planted(
                "relu",
                "relu(z-1)",
                [0.3, 0.2, 0.5],
                [-38, -31, -2],
                2,
                1,
                9,
                9,
                1e-6,
                0.1,
            ),
            "two lines",
        ),
        (
            planted("linear", "tanh", [0.3, 0.7], [1, -2], 1, 0.5, 3, 2, 1e-6, 0.1),
            "blocks are dependent",
        ),
        (
            planted("h2(z)", "tanh", [1], [10], 1, 0.5, 2, 1, 1e-3, 0.1),
            "features grow without bound",
        ),
        (
            planted("relu", "linear", [0.5, 0.5], [2, -2], 1, 1, 2, 1, 0.1),
            "perfect fit",
        ),
        (
            planted("sign", "sign(z)", [1], [20], 1, 0.9999, 1000, 0.03, 1e-10),
            "nearly a jump",
        ),
        (planted("tanh", "sin", [1], [1], 1, 0.5, 0.01, 30, 1e4, 0.1), "few samples"),
    ],
)
def test_hard_corners(scenario: gs.OneStep, why: str) -> None:
    assert check_sanity(scenario, np.inf) == "", why


def test_a_singular_point_leaves_its_neighbours_alone() -> None:
    """At ridge 1e-30 the equations of a linear activation are singular in floats."""
    scenario = planted(
        "linear",
        "relu(z - 1)",
        [0.1, 0.4, 0.2, 0.3],
        [-5, -1.6, 2.7, 5.6],
        2,
        -0.5,
        5,
        4,
        0.1,
        0.1,
    )
    answer = answer_of(scenario, ridge=[0.1, 1e-30, 1.0])
    assert answer.status[0] == "" and answer.status[2] == ""
    np.testing.assert_allclose(
        answer.values["test_error"][[0, 2]],
        error_of(scenario, ridge=[0.1, 1.0]),
        rtol=1e-13,
    )


def test_rare_inputs_are_announced() -> None:
    """As spiked_features section 12: at a tiny ridge and n < p a saturating activation
    hangs on |kappa| > 3.5.
    """
    tail = planted("tanh", "sin", [1], [1.5], 1, 0.9, 0.6, 1, 1e-6, 0.05)
    answer = solve(tail)
    assert answer.values["test_error"][0] == pytest.approx(12.0, abs=0.05)
    assert any("Rare inputs" in warning for warning in answer.warnings)
    assert not solve(tail, ridge=0.1).warnings


def test_moments_of_the_second_route() -> None:
    """The helper's own quadrature: E relu = 1/sqrt(2 pi), E sign(z) z = sqrt(2/pi), and
    a shifted kink.
    """
    assert normal_moments("relu", 0, 1)[0] == pytest.approx(
        1 / np.sqrt(2 * np.pi), rel=1e-14
    )
    assert normal_moments("sign", 0, 1)[1] == pytest.approx(
        np.sqrt(2 / np.pi), rel=1e-14
    )
    assert normal_moments("h2", 0.7, 2)[2] == pytest.approx(
        (0.49 + 3) ** 2 + 4 * 0.49 * 4 + 2 * 16, rel=1e-13
    )
    assert set(FUNCTIONS) >= {"relu", "tanh"}
