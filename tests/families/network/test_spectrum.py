"""The bulk spectrum of the feature covariance: reference values, closed forms, sum
rules, resolvent.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.readout import FiniteSize, Spectrum, bulk_law, find_outliers
from giantstep.core.readout.answers import _is_whole
from giantstep.core.readout.counts import shift_of_counts
from giantstep.core.readout.left_open import line_of_outliers
from giantstep.core.result.comparison import combine
from giantstep.core.result.layers import judged_side
from giantstep.core.scenario.answer import Answer
from giantstep.tools.figures.panels import sides

from .inside import answer_of, spectrum_of
from .one_direction_route import marchenko_pastur, random_features_stieltjes


def scenario_of(
    activation: str,
    u: list[float] | float,
    ratio: float,
    width: float,
    pi: list[float] | None = None,
    target: str = "sin",
) -> gs.OneStep:
    u = list(np.atleast_1d(np.asarray(u, dtype=float)))
    return gs.OneStep(
        activation=activation,
        target=target,
        width_per_dim=width,
        samples_per_dim=ratio * width,
        ridge=0.1,
        second_layer=gs.Vocabulary(u, pi or [1.0]),
        step=gs.PlantedSpike(strength=u),
    )


def bulk_of(*arguments: Any, **keywords: Any) -> Spectrum:
    return spectrum_of(scenario_of(*arguments, **keywords))[0]


def ask(
    scenario: gs.OneStep, what: str, dim: float = np.inf, **settings: Any
) -> Answer:
    answer = answer_of(scenario, what, dim, settings)
    assert answer.status[0] == ""
    return answer


# --- reference values (spiked_features sections 7 and 15) -----------------------------


@pytest.mark.parametrize(
    ("activation", "strengths", "edges"),
    [
        ("relu", (0, 0.5, 1, 2, 4), (2.118913, 2.674331, 3.337269, 3.989683, 4.408317)),
        ("tanh", (0, 0.5, 1, 2, 4), (2.834837, 2.534300, 2.083648, 1.526754, 1.094406)),
        ("erf", (0, 1, 2), (3.300924, 2.380627, 1.736623)),
    ],
)
def test_upper_edges(
    activation: str, strengths: tuple[float, ...], edges: tuple[float, ...]
) -> None:
    found = [bulk_of(activation, u, 0.8, 2).upper_edge() for u in strengths]
    np.testing.assert_allclose(found, edges, rtol=0, atol=5.1e-7)


@pytest.mark.parametrize(
    ("activation", "u", "ratio", "width", "edge", "digits"),
    [
        ("z**2 - 1", 0, 4, 1, 2.0, 5e-7),
        ("tanh", 0, 4, 1, 0.0566628, 5.1e-8),
        ("tanh", 1, 4, 1, 0.0676373, 5.1e-8),
        ("tanh", 0, 0.3, 2, 0.0243034, 5.1e-8),
        ("z**2 - 1", 0, 1.0005, 1, 2 * (np.sqrt(1.0005) - 1) ** 2, 1e-14),
        ("tanh", 0, 1.003, 1, 2.576729e-7, 5.1e-14),
        ("tanh", 0, 1.0005, 1, 7.178869e-9, 5.1e-16),
        ("tanh", 0, 1.00001, 1, 0.0, 0.0),
    ],
)
def test_lower_edges(
    activation: str, u: float, ratio: float, width: float, edge: float, digits: float
) -> None:
    assert bulk_of(activation, u, ratio, width).lower_edge() == pytest.approx(
        edge, abs=digits
    )


def test_density() -> None:
    """Figure 1 of Dandi et al.: density per nonzero eigenvalue, n/p = 0.8."""
    x = np.array([0.25, 0.5, 1, 1.5, 2, 3])
    trained, _ = bulk_of("relu", 1, 0.8, 2).density(x)
    printed = [0.630672, 0.307034, 0.145575, 0.088653, 0.057961, 0.019997]
    np.testing.assert_allclose(trained / 0.8, printed, rtol=0, atol=6e-7)
    untrained, _ = bulk_of("relu", 0, 0.8, 2).density(x)
    printed = [0.818193, 0.405872, 0.184952, 0.096889, 0.033076]
    np.testing.assert_allclose(untrained[:5] / 0.8, printed, rtol=0, atol=6e-7)
    assert untrained[5] < 1e-6


def test_outliers() -> None:
    bulk = bulk_of("tanh(2*(z-2))", 0.7, 10, 6)
    edge = bulk.upper_edge()
    assert edge == pytest.approx(9.14196, abs=5.1e-6)
    spike, outlier = find_outliers(bulk, edge, FiniteSize(np.zeros(1)))
    assert spike == np.inf  # the mean grows with the dimension
    assert outlier == pytest.approx(10.3297, abs=5.1e-5)
    four = bulk_of("relu", [1, -0.5, 1.5, -2], 2, 1.5, pi=[0.7, 0.1, 0.1, 0.1])
    assert find_outliers(four, four.upper_edge(), FiniteSize(np.array([1 / 2000])))[
        2
    ] == pytest.approx(19.91, abs=5.1e-3)


def test_large_spikes_are_moments_of_the_means() -> None:
    """Leading order n eig(sqrt(pi pi') E mu0 mu0'), up to O(1) terms: spiked_features
    section 7.4.
    """
    bulk = bulk_of("relu", [1, -1], 1.5, 1.0, pi=[0.6, 0.4])
    features = bulk.equations.features
    means = features.mu0[0] * np.sqrt(features.pi)[:, None]
    leading = np.linalg.eigvalsh((means * features.weights[0]) @ means.T)[::-1]
    for dim in (1e5, 1e6):
        found = find_outliers(bulk, bulk.upper_edge(), FiniteSize(np.array([1 / dim])))
        np.testing.assert_allclose(
            found, 1.5 * dim * leading, rtol=20 / dim / leading[-1]
        )


# --- eigenvalues counted one by one, at a finite dimension ----------------------------


def newcomer(**changes: Any) -> gs.OneStep:
    """Return the README network, whose spectrum has two outliers."""
    step = gs.MaximalStep(rate=2.0)
    second_layer = gs.Vocabulary([1, -1])
    scenario = gs.OneStep(
        activation="relu",
        target="tanh(z)",
        noise=0.1,
        width_per_dim=1.5,
        samples_per_dim=2.0,
        ridge=0.1,
        second_layer=second_layer,
        step=step,
    )
    return scenario.replace(**changes)


@pytest.mark.parametrize(
    ("step", "outliers"), [(gs.MaximalStep(rate=2.0), 2), (gs.NoStep(), 1)]
)
def test_outliers_are_counted_on_both_sides(step: Any, outliers: int) -> None:
    """The cdf of both ends at 1 - k/p, and every verdict agrees."""
    both = gs.compare(newcomer(step=step), what="spectrum", dim=100, trials=30)
    theory, network = sides(both)
    assert float(theory.cdf[-1]) == pytest.approx(1 - outliers / 150, abs=1e-12)
    assert float(network.cdf[-1]) == pytest.approx(1 - outliers / 150, abs=1e-12)
    assert float(theory.outlier_count) == outliers == float(network.outlier_count)
    report = gs.agreement(both)
    judged = {
        verdict.variable: verdict.verdict for verdict in report.verdicts(see=0.15)
    }
    assert judged == dict.fromkeys(
        ("cdf", "atom", "outliers", "outlier_count"), "agrees"
    )
    assert "Of cdf, theory at d = 100 leaves" in str(report)


def test_an_outlier_that_theory_lacks_is_seen() -> None:
    """The verdict on their number and on the cdf does not grant an eigenvalue more."""
    both = gs.compare(newcomer(), what="spectrum", dim=100, trials=10)
    for name in ("cdf", "outlier_count"):
        change = 0.015 if name == "cdf" else -1.0
        wrong = both.copy()
        moved = both[name].copy(deep=True)
        moved.loc[{"source": "theory"}] += change
        wrong[name] = moved
        layers = {
            source: wrong.sel(source=source).assign_attrs(trials=10)
            for source in ("limit", "theory", "experiment")
        }
        layers["theory"].attrs.pop("trials")
        again = combine(layers, gs.OneStep.questions["spectrum"]).assign_attrs(
            both.attrs
        )
        assert gs.agreement(again, name).verdict().verdict == "disagrees"


def test_gaps_count_beyond_what_theory_leaves_open() -> None:
    both = gs.compare(newcomer(), what="spectrum", dim=60, trials=4)
    if "source" in both.cdf_resolution.dims:
        resolution = judged_side(both.cdf_resolution)
    else:
        resolution = both.cdf_resolution
    gap = np.abs(both.cdf_gap.values)
    z = both.cdf_z.values
    inside = gap <= resolution.values
    assert np.all(z[inside] == 0) and np.all(z[~inside] != 0)
    above = both.x.values > 1.01 * float(judged_side(both.upper_edge))
    np.testing.assert_allclose(resolution.values[above], 1 / 90)


def test_an_infinite_outlier_is_not_compared() -> None:
    both = gs.compare(newcomer(), what="spectrum", dim=60, trials=4, finite_size=False)
    assert np.isinf(judged_side(both.outliers).values[:2]).all()
    assert np.isnan(both.outliers_z.values).all()
    assert "outliers" not in [row.variable for row in gs.agreement(both).rows]


def test_the_shift_of_the_counts_is_that_of_random_matrices() -> None:
    """x^2 has mean 1 and independent features of variance 2 beside it: a Gaussian
    matrix with and without the mean.
    """
    rng = np.random.default_rng(5)
    dim = 60
    n = 90
    p = 60
    x = np.array([0.3, 0.8, 1.5, 3.0, 5.0, 7.0])
    changes = []
    for _ in range(400):
        bulk = np.sqrt(2) * rng.standard_normal((n, p))
        plain, moved = (
            np.linalg.eigvalsh(features.T @ features / p)
            for features in (bulk, bulk + 1.0)
        )
        changes.append([np.sum(moved <= place) - np.sum(plain <= place) for place in x])
    error = np.std(changes, axis=0, ddof=1) / 20
    found = shift_of_counts(
        bulk_of("z**2", 0, n / p, 1), FiniteSize(np.array([1 / dim])), x
    )
    assert np.all(np.abs(found - np.mean(changes, axis=0)) < 4 * error + 0.02)
    assert found[-1] < -0.4


def test_zeros_of_fewer_samples_than_neurons_are_exact() -> None:
    """Every network has p - n of them: the last digits of an extrapolation would
    disagree with no spread at all.
    """
    scenario = newcomer(
        samples_per_dim=1.2,
        step=gs.PlantedSpike(strength=0.5),
        second_layer=gs.Vocabulary([1]),
    )
    both = gs.compare(scenario, what="spectrum", dim=60, trials=4, x=[0.5, 1.0])
    assert float(judged_side(both.atom)) == pytest.approx(0.2, abs=1e-15)
    assert gs.agreement(both, "atom").verdict().verdict == "agrees"


def test_no_line_parts_an_outlier_from_an_edge_that_is_near() -> None:
    assert line_of_outliers(2.0, np.array([30.0]), 1000.0) == pytest.approx(2.08)
    assert np.isnan(line_of_outliers(2.0, np.array([30.0, 2.1]), 1000.0))
    assert np.isnan(line_of_outliers(np.inf, np.array([30.0]), 1000.0))
    assert line_of_outliers(2.0, np.array([np.inf, 2.1]), np.inf) == 2.0


# --- closed forms ---------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [0.3, 0.8, 1.0, 1.5, 4.0])
def test_marchenko_pastur(ratio: float) -> None:
    """x^2 - 1 without a spike has no linear part: independent features of
    variance 2.
    """
    bulk = bulk_of("z**2 - 1", 0, ratio, 1)
    low = 2 * (1 - np.sqrt(ratio)) ** 2
    high = 2 * (1 + np.sqrt(ratio)) ** 2
    assert bulk.upper_edge() == pytest.approx(high, rel=1e-9)
    assert bulk.lower_edge() == pytest.approx(low, rel=1e-9, abs=1e-6)
    x = low + (high - low) * np.linspace(0.02, 0.98, 25)
    density, _ = bulk.density(x)
    # Im z = 1e-7 x
    np.testing.assert_allclose(density, marchenko_pastur(x, ratio, 2), rtol=2e-6)
    assert bulk.atom == pytest.approx(max(0, 1 - ratio), abs=1e-7)


@pytest.mark.parametrize(("ratio", "width"), [(0.8, 2.0), (3.0, 0.5), (1.4, 1.0)])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_untrained_density_is_a_quartic(
    activation: str, ratio: float, width: float
) -> None:
    bulk = bulk_of(activation, 0, ratio, width)
    low = bulk.lower_edge()
    high = bulk.upper_edge()
    z = (low + (high - low) * np.linspace(0.05, 0.95, 12)) * (1 + 1e-7j)
    expected = np.array(
        [random_features_stieltjes(activation, ratio, width, point) for point in z]
    )
    found = bulk.solve(z).response.R.sum(axis=1) / width
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_linear_activation_is_rank_deficient() -> None:
    """With p > d only d of the p eigenvalues differ from zero."""
    bulk = bulk_of("linear", 0, 4, 2)
    assert bulk.atom == pytest.approx(0.5, abs=1e-7)
    law = bulk_law(bulk)
    assert law.panels.integral(law.on_panels) == pytest.approx(0.5, abs=1e-4)


# --- sum rules ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("activation", "u", "ratio", "width", "tolerance"),
    [
        ("relu", 0, 0.8, 2, 1e-6),
        (
            "relu",
            1,
            0.8,
            2,
            2e-3,
        ),  # the density diverges towards 0: a mass of 1e-3 lies below 1e-7
        ("tanh", 1, 4, 1, 1e-6),
        ("erf", 0.3, 0.5, 1, 5e-6),
        ("sin", 0.7, 1.7, 0.4, 1e-6),
    ],
)
def test_mass_and_mean(
    activation: str, u: float, ratio: float, width: float, tolerance: float
) -> None:
    bulk = bulk_of(activation, u, ratio, width)
    law = bulk_law(bulk)
    mass = law.panels.integral(law.on_panels)
    mean = law.panels.integral(law.on_panels * law.panels.nodes)
    assert mass + law.atom == pytest.approx(1, abs=tolerance)
    assert mean == pytest.approx(bulk.mean, rel=2e-6)
    x = np.array([0.0, 0.5 * law.lower, law.upper, 2 * law.upper])
    cdf = law.cdf(x)
    np.testing.assert_allclose(cdf[2:], 1, atol=1e-9)
    if law.lower > 0:
        np.testing.assert_allclose(cdf[:2], law.atom, atol=1e-6)


@pytest.mark.parametrize(
    ("activation", "u"), [("relu", 3), pytest.param("erf", 4, marks=pytest.mark.slow)]
)
def test_eigenvalues_that_are_too_small_for_the_panels_are_counted(
    activation: str, u: float
) -> None:
    """A strong spike leaves many inputs features that hardly vary: their eigenvalues
    have any size below 1e-7.
    """
    bulk = bulk_of(activation, u, 0.8, 2)
    law = bulk_law(bulk)
    assert law.lower == 0.0
    assert law.mass + law.atom < 0.96
    assert law.mass + law.mass_below(bulk) == pytest.approx(1, abs=2e-3)
    assert _is_whole(law, bulk)
    assert not _is_whole(replace(law, on_panels=0.95 * law.on_panels), bulk)
    assert not _is_whole(replace(law, lower=1e-3), bulk)


@pytest.mark.slow
@pytest.mark.parametrize(("activation", "u"), [("relu", 3), ("erf", 3), ("tanh", 4)])
def test_networks_with_a_strong_spike_have_this_spectrum(
    activation: str, u: float
) -> None:
    """Beyond chance a few of p eigenvalues are elsewhere; of those below 1e-3 a network
    has fewer.
    """
    x = np.geomspace(0.003, 0.9, 8)
    dim = 300
    both = gs.compare(
        scenario_of(activation, u, 0.8, 2),
        what="spectrum",
        x=x,
        dim=dim,
        trials=8,
        seed=3,
    )
    limit, network = sides(both)
    assert bool(limit["converged"])
    allowed = 4 * network["cdf_stderr"] + 4 / (2 * dim)
    assert np.all(np.abs(network["cdf"] - limit["cdf"]) < allowed)
    assert float(network["upper_edge"] / limit["upper_edge"]) == pytest.approx(
        1, abs=5 * dim ** (-2 / 3)
    )


def test_a_gap_in_the_bulk_is_resolved() -> None:
    """Very wide networks split the bulk: p - d eigenvalues below, d above; the panels
    refine towards the gap.

    A density that is not smooth inside a panel once put the mass off by 3e-3, and the
    distribution fell.
    """
    bulk = bulk_of("relu", 1, 2, 20)
    law = bulk_law(bulk)
    assert law.panels.integral(law.on_panels) == pytest.approx(1, abs=2e-4)
    assert law.panels.integral(law.on_panels * law.panels.nodes) == pytest.approx(
        bulk.mean, rel=1e-4
    )
    cdf = law.cdf(np.linspace(0, law.upper, 400))
    assert np.all(np.diff(cdf) >= -1e-8)
    inside = law.cdf(np.array([1.0, 4.0]))
    assert inside[0] == pytest.approx(1 - 1 / 20, abs=2e-4)
    assert inside[1] == pytest.approx(inside[0], abs=1e-6)


def test_density_near_zero_is_smooth() -> None:
    """A saturated activation has eigenvalues on all scales; too few nodes of kappa
    would show as spikes.

    x density grows by 7% or so a step here; ten nodes on a panel put it off by up to
    30%.
    """
    x = np.geomspace(5e-3, 5e-2, 24)
    density, _ = bulk_of("erf", 2, 0.5, 1).density(x)
    growth = np.diff(np.log(x * density))
    assert np.all(growth > 0) and np.all(growth < 0.2)


def test_distribution_is_the_integral_of_the_density() -> None:
    scenario = scenario_of("tanh", 1, 4, 1)
    x = np.linspace(0.02, 5.4, 2000)
    values = ask(scenario, "spectrum", x=x).values
    density = values["density"][0]
    cdf = values["cdf"][0]
    assert np.all(density >= 0)
    assert np.all(np.diff(cdf) >= -1e-9)
    trapezoid = np.concatenate(
        [[0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(x))]
    )
    # the trapezoid near the square-root edges
    np.testing.assert_allclose(cdf - cdf[0], trapezoid, atol=1e-3)


def test_normalisations() -> None:
    """Phi^T Phi/n has the eigenvalues of Phi^T Phi/p divided by n/p."""
    scenario = scenario_of("tanh", 0.3, 0.8, 1)
    x = np.linspace(0.1, 3.5, 12)
    by_width = ask(scenario, "spectrum", x=x).values
    by_samples = ask(scenario, "spectrum", x=x / 0.8, normalisation="n").values
    np.testing.assert_allclose(
        by_samples["density"], 0.8 * by_width["density"], rtol=1e-6, atol=1e-7
    )
    np.testing.assert_allclose(by_samples["cdf"], by_width["cdf"], atol=1e-9)
    for name in ("lower_edge", "upper_edge", "mean_eigenvalue"):
        np.testing.assert_allclose(by_samples[name], by_width[name] / 0.8, rtol=1e-12)


# --- resolvent ------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_resolvent_at_a_negative_number_is_the_ridge_problem(ratio: float) -> None:
    """m(-lambda) = sum V2 of the ridge fit; both stop at about 1e-13, the complex one
    at Im z = 1e-14.
    """
    scenario = scenario_of("relu", [1, -2], ratio, 1.5, pi=[0.6, 0.4])
    ridges = np.array([1e-3, 0.1, 3.0])
    found = ask(scenario, "resolvent", z=-ridges).values
    errors = answer_of(scenario, ridge=ridges).values
    np.testing.assert_allclose(found["V2_real"][0], errors["V2"], rtol=1e-10)
    np.testing.assert_allclose(found["V1_real"][0], errors["V1"], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found["m_real"][0], errors["V2"].sum(axis=1), rtol=1e-10)
    np.testing.assert_allclose(found["m_imag"][0] / found["m_real"][0], 0, atol=1e-12)


def test_resolvent_symmetry_and_decay() -> None:
    scenario = scenario_of("tanh", [1, 0.5], 1.3, 0.7, pi=[0.5, 0.5])
    z = np.array([0.7 + 0.3j, 0.7 - 0.3j, 1e6j, -2 + 0j])
    values = ask(scenario, "resolvent", z=z).values
    m = values["m_real"][0] + 1j * values["m_imag"][0]
    assert m[1] == pytest.approx(np.conj(m[0]), rel=1e-13)
    assert m[0].imag > 0
    bulk = bulk_of("tanh", [1, 0.5], 1.3, 0.7, pi=[0.5, 0.5])
    # moments 1 and `mean`
    assert m[2] == pytest.approx(-1 / z[2] - bulk.mean / z[2] ** 2, rel=1e-9)


def test_resolvent_is_the_transform_of_the_density() -> None:
    bulk = bulk_of("tanh", 1, 4, 1)
    law = bulk_law(bulk)
    for z in (1 + 0.5j, -0.3 + 0.1j, 6 + 0.2j):
        direct = complex(bulk.solve(np.array([z])).response.R.sum() / bulk.width)
        panels = law.panels
        integral = np.sum(panels.weights * law.on_panels / (panels.nodes - z))
        assert integral == pytest.approx(direct, rel=1e-6)


def test_slope_of_the_resolvent() -> None:
    """d m/dz is positive on the negative axis, and equals int density/(x-z)^2."""
    scenario = scenario_of("tanh", 1, 4, 1)
    step = 1e-3
    values = ask(scenario, "resolvent", z=-1 + step * np.arange(-2, 3)).values[
        "m_real"
    ][0]
    slope = values @ [1, -8, 0, 8, -1] / (12 * step)
    law = bulk_law(bulk_of("tanh", 1, 4, 1))
    integral = np.sum(law.panels.weights * law.on_panels / (law.panels.nodes + 1) ** 2)
    assert slope == pytest.approx(integral, rel=1e-6)


# --- corners --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("activation", "u", "ratio", "width"),
    [
        pytest.param("tanh", 20.0, 2.0, 1.0, marks=pytest.mark.slow),
        ("sign", 1.0, 2.0, 1.0),
        pytest.param("softplus", 1.0, 0.05, 1.0, marks=pytest.mark.slow),
        pytest.param("softplus", 1.0, 30.0, 1.0, marks=pytest.mark.slow),
        pytest.param("relu", 20.0, 0.8, 2.0, marks=pytest.mark.slow),
        ("erf", 1.0, 1.0, 1.0),
        ("relu", 1.0, 2.0, 0.05),
        ("relu", 1.0, 2.0, 20.0),
        ("z**2 - 1", 0.5, 4.0, 1.0),
    ],
)
def test_hard_corners(activation: str, u: float, ratio: float, width: float) -> None:
    answer = ask(scenario_of(activation, u, ratio, width), "spectrum")
    density = answer.values["density"][0]
    cdf = answer.values["cdf"][0]
    assert np.all(np.isfinite(density)) and np.all(density >= 0)
    assert np.all(np.diff(cdf) >= -1e-6) and cdf[0] >= 0 and cdf[-1] <= 1 + 1e-6
    assert 0 <= answer.values["lower_edge"][0] < answer.values["upper_edge"][0]


# --- gaps, and eigenvalues in them ----------------------------------------------------


def test_a_gap_and_the_eigenvalue_inside_it():
    """With p = 10 d the linear part of the features stands apart, and the learnt
    direction between both.

    Networks of d = 120, whose edges fluctuate: one eigenvalue well inside the gap, the
    limit within 4 standard errors and 2%. A search above the bulk only would see
    nothing of this.
    """
    scenario = scenario_of("relu", 1.0, 5.0, 10.0)
    limit = gs.predict(scenario, what="spectrum", dim=120, x=[3.0, 10.0])
    lower = float(limit.gap_lower[0])
    upper = float(limit.gap_upper[0])
    assert np.isnan(limit.gap_lower[1:]).all() and lower < 1 < 7 < upper
    assert float(limit.density[0]) == 0.0 and float(limit.density[1]) > 0.003
    rng = np.random.default_rng(4)
    inside = []
    for _ in range(6):
        rows = rng.normal(size=(1200, 120))
        rows /= np.linalg.norm(rows, axis=1)[:, None]
        rows[:, 0] += 1.0
        features = np.maximum(rng.normal(size=(6000, 120)) @ rows.T, 0.0)
        eigenvalues = np.linalg.eigvalsh(features.T @ features / 1200)
        found = eigenvalues[(eigenvalues > 1.5 * lower) & (eigenvalues < 0.8 * upper)]
        assert len(found) == 1
        inside.append(found[0])
    error = np.std(inside, ddof=1) / np.sqrt(len(inside))
    assert abs(np.mean(inside) - float(limit.outliers[1])) < 4 * error + 0.02 * np.mean(
        inside
    )


def test_ordinary_bulks_have_no_gap():
    limit = gs.predict(
        scenario_of("relu", 1.0, 1.5, 1.2), what="spectrum", x=[0.5, 1.0]
    )
    assert np.isnan(limit.gap_lower).all() and np.isnan(limit.gap_upper).all()


def test_a_gap_far_below_the_end_of_the_bulk():
    """Nearly linear features with p = 1.6 d: the gap ends at 1.4% of the upper edge,
    its eigenvalue at 0.3%.

    Networks of d = 120: one eigenvalue well inside, within 4 standard errors and 2%.
    """
    scenario = scenario_of("0.9*z + 0.1*abs(z)", 0.5, 40.0, 1.6)
    limit = gs.predict(scenario, what="spectrum", dim=120, x=[1.0, 10.0])
    lower = float(limit.gap_lower[0])
    upper = float(limit.gap_upper[0])
    assert (
        0.14 < lower < 0.16
        and 2.3 < upper < 2.4
        and np.isnan(limit.gap_lower[1:]).all()
    )
    rng = np.random.default_rng(5)
    inside = []
    for _ in range(12):
        rows = rng.normal(size=(192, 120))
        rows /= np.linalg.norm(rows, axis=1)[:, None]
        rows[:, 0] += 0.5
        fields = rng.normal(size=(7680, 120)) @ rows.T
        features = 0.9 * fields + 0.1 * np.abs(fields)
        eigenvalues = np.linalg.eigvalsh(features.T @ features / 192)
        found = eigenvalues[(eigenvalues > 1.5 * lower) & (eigenvalues < 0.6 * upper)]
        assert len(found) == 1
        inside.append(found[0])
    error = np.std(inside, ddof=1) / np.sqrt(len(inside))
    assert abs(np.mean(inside) - float(limit.outliers[1])) < 4 * error + 0.02 * np.mean(
        inside
    )


def test_the_lower_edge_of_the_example_is_where_its_density_begins():
    """It was 10% too low, and another number on every processor."""
    scenario = gs.OneStep.example_for("spectrum")
    edge = float(gs.predict(scenario, what="spectrum").lower_edge)
    density = gs.predict(
        scenario, what="spectrum", x=[0.97 * edge, 1.03 * edge]
    ).density.values
    assert density[0] == 0 and density[1] > 1
    complex_density = gs.predict(
        scenario, what="resolvent", z=[0.97 * edge + 1e-7j, 1.03 * edge + 1e-7j]
    )
    assert complex_density.m_imag.values[0] < 1e-3 * complex_density.m_imag.values[1]
