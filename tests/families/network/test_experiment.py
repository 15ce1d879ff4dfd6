import math
import tracemalloc

import numpy as np
import pytest

from giantstep.core.base.errors import InputError
from giantstep.core.lab import Draws, check_memory, chunk_rows
from giantstep.core.scenario.vocabulary import Vocabulary
from giantstep.problems.network import experiment
from giantstep.problems.network.one_step import OneStep
from giantstep.problems.network.steps import MaximalStep, NoStep, PlantedSpike

from .inside import trained_of

CHUNK = chunk_rows("cpu")

DIM = 60


def scenario_of(**fields):
    usual = dict(
        activation="relu",
        target="tanh",
        noise=0.1,
        width_per_dim=1.5,
        samples_per_dim=2.0,
        ridge=0.1,
        second_layer=Vocabulary([1, -0.5, 2], [0.5, 0.3, 0.2]),
        step=PlantedSpike([1.0, -0.5, 1.5], [1.0, 0.8, 1.2], 0.6),
    )
    return OneStep(**{**usual, **fields})


def points_of(scenario, samples=None, ridges=None):
    samples = np.atleast_1d(
        scenario.samples_per_dim if samples is None else samples
    ).astype(float)
    ridges = np.broadcast_to(
        scenario.ridge if ridges is None else ridges, samples.shape
    ).astype(float)
    points = {
        name: np.repeat(value, len(samples))
        for name, (value, _) in scenario.numeric_fields().items()
    }
    return {**points, "samples_per_dim": samples, "ridge": ridges}


def run(
    scenario, samples=None, ridges=None, what="errors", dim=DIM, seed=0, **settings
):
    return trial(
        scenario, points_of(scenario, samples, ridges), what, dim, seed, **settings
    )


def trial(scenario, points, what="errors", dim=DIM, seed=0, **settings):
    """One trial at these points, prepared as a study does."""
    return scenario.trial(
        points, what, dim, Draws(seed, "test", 0), prepared(scenario, points, settings)
    )


def prepared(scenario, points, settings):
    bare = {**points, "dim": np.full(len(points["ridge"]), np.inf)}
    return {**scenario.prepare(bare, "errors", {}), **settings}


def first_chunk(stream, rows, columns, seed=0):
    """The rows of a stream as the experiment draws them: chunk by chunk."""
    parts = [
        x.copy() for _, _, x in Draws(seed, "test", 0).chunks(stream, rows, columns)
    ]
    return np.concatenate(parts)


class Dense:
    """The planted experiment written out with whole matrices, at one point."""

    def __init__(self, samples, ridge, dim=DIM, test_samples=2500):
        d = dim
        p = round(1.5 * dim)
        n = round(samples * dim)
        draws = Draws(0, "test", 0)
        W0 = draws.normal("weights", (p, d))
        W0 /= np.linalg.norm(W0, axis=1, keepdims=True)
        counts = [round(0.5 * p), round(0.8 * p) - round(0.5 * p), p - round(0.8 * p)]
        self.block = np.repeat([0, 1, 2], counts)
        u = np.repeat([1.0, -0.5, 1.5], counts)
        s = np.repeat([1.0, 0.8, 1.2], counts)
        v = np.eye(d)[0]
        perp = np.eye(d)[1]
        star = 0.6 * v + 0.8 * perp
        W = s[:, None] * W0 + u[:, None] * v
        X = first_chunk("train", n, d)
        y = np.tanh(X @ star) + math.sqrt(0.1) * first_chunk("train_noise", n, 1)[:, 0]
        self.Phi = Phi = np.maximum(X @ W.T, 0)
        F = Phi / math.sqrt(p)
        taller = np.concatenate([F, math.sqrt(ridge) * np.eye(p)])
        a = np.linalg.lstsq(taller, np.concatenate([y, np.zeros(p)]), rcond=1e-15)[0]
        T = first_chunk("test", test_samples, d)
        f = np.maximum(T @ W.T, 0) @ a / math.sqrt(p)
        one_hot = np.eye(3)[self.block]
        tau = np.einsum("i,iq,ij->qj", a, one_hot, W0) / math.sqrt(p)
        self.W0 = W0
        self.p = p
        self.n = n
        train = np.mean((y - F @ a) ** 2)
        self.values = {
            "test_error": np.mean((np.tanh(T @ star) - f) ** 2) + 0.1,
            "train_error": train,
            "objective": train + ridge * (a @ a) / n,
            "test_misclassified": np.mean(np.sign(f) != np.sign(T @ star)),
            "norm": a @ a / p,
            "theta": a @ one_hot / math.sqrt(p),
            "t": tau @ v,
            "psi": tau @ perp,
            "Q1": tau @ (np.eye(d) - np.outer(v, v)) @ tau.T,
            "Q2": (a * a) @ one_hot / p,
        }


def test_every_variable_of_the_curve_equals_the_dense_computation():
    samples = np.array([0.3, 1.0, 1.49, 1.5, 1.55, 3.0, 40.0, 0.3, 3.0, 0.5, 4.0])
    ridges = np.array([0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 3.0, 3.0, 0.0, 0.0])
    found = run(scenario_of(), samples, ridges, test_samples=2500)
    assert 40 * DIM > 2 * CHUNK
    for b, (alpha, ridge) in enumerate(zip(samples, ridges)):
        expected = Dense(alpha, ridge).values
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(
                found[name][b],
                value,
                rtol=1e-9,
                atol=1e-9,
                err_msg=f"{name} {alpha} {ridge}",
            )


def test_a_point_alone_equals_the_point_in_a_grid():
    samples = np.array([0.5, 1.2, 2.0, 20.0, 1.2])
    ridges = np.array([0.1, 0.1, 0.3, 0.1, 0.0])
    grid = run(scenario_of(), samples, ridges, test_samples=500)
    for b in range(len(samples)):
        alone = run(scenario_of(), samples[b], ridges[b], test_samples=500)
        for name in grid:
            np.testing.assert_allclose(
                alone[name][0], grid[name][b], rtol=1e-9, atol=1e-11
            )


def test_a_trial_is_its_seed():
    first, again, other = (
        run(scenario_of(), seed=seed, test_samples=500) for seed in (0, 0, 1)
    )
    assert all((first[name] == again[name]).all() for name in first)
    assert first["test_error"] != other["test_error"]


def test_numbers_come_from_the_points_not_from_the_scenario():
    scenario = scenario_of(step=PlantedSpike(1.0, 1.0, 0.5))
    other = scenario.replace(
        noise=0.3, width_per_dim=1.0, step__strength=2.0, step__alignment=0.9
    )
    found = trial(scenario, points_of(other))
    assert found["test_error"] == run(other)["test_error"]


def test_a_number_as_strength_multiplies_the_vocabulary():
    one = run(scenario_of(step=PlantedSpike(2.0)), test_samples=500)
    listed = run(scenario_of(step=PlantedSpike([2.0, -1.0, 4.0])), test_samples=500)
    assert one["test_error"] == listed["test_error"]


def test_gaussian_second_layer_has_one_block():
    values = run(
        scenario_of(second_layer="gaussian", step=PlantedSpike(1.5)), test_samples=500
    )
    assert values["theta"].shape == (1, 1) and values["Q1"].shape == (1, 1, 1)
    plain = run(
        scenario_of(second_layer=Vocabulary([1.0]), step=PlantedSpike(1.5)),
        test_samples=500,
    )
    assert values["test_error"] != plain["test_error"]


def test_simple_facts():
    scenario = scenario_of()
    values = run(scenario, [0.5, 1.0, 3.0], 0.05, test_samples=2000)
    assert (values["train_error"] < values["test_error"]).all()
    assert (values["objective"] >= values["train_error"]).all()
    assert (values["test_error"] > scenario.noise).all()
    np.testing.assert_allclose(values["Q2"].sum(-1), values["norm"])
    np.testing.assert_array_equal(values["Q1"], values["Q1"].swapaxes(1, 2))
    huge = run(scenario, 2.0, 1e12, test_samples=20_000)
    labels = np.tanh(np.random.default_rng(0).standard_normal(10**6))
    assert huge["test_error"][0] == pytest.approx(np.mean(labels**2) + 0.1, rel=0.02)
    assert huge["norm"][0] < 1e-12
    shrinking = run(scenario, [2.0] * 4, [0.01, 0.1, 1.0, 10.0], test_samples=500)
    assert (np.diff(shrinking["train_error"]) > 0).all() and (
        np.diff(shrinking["norm"]) < 0
    ).all()


def test_interpolation_without_ridge():
    values = run(scenario_of(), [1.0, 1.0], [0.0, 1e-9], test_samples=500)
    assert values["train_error"][0] == 0 and values["train_error"][1] < 1e-12
    assert values["test_error"][0] == pytest.approx(values["test_error"][1], rel=1e-5)


def test_linear_features_beyond_full_rank():
    scenario = scenario_of(
        activation="linear", target="z", noise=0.0, ridge=0.0, step=NoStep()
    )
    values = run(scenario, [0.5, 3.0], test_samples=500)
    assert values["test_error"][1] < 1e-18
    assert values["test_error"][0] > 0.1


def test_one_step_without_rate_is_random_features():
    for batch in (math.inf, 2.0):
        still = run(scenario_of(step=MaximalStep(0.0, batch)), test_samples=500)
        plain = run(scenario_of(step=NoStep()), test_samples=500)
        assert still["test_error"] == plain["test_error"]


@pytest.mark.parametrize("batch", [2.0, math.inf])
def test_every_variable_is_filled_after_a_step(batch):
    values = run(scenario_of(step=MaximalStep(1.0, batch)), test_samples=500)
    assert all(np.isfinite(values[name]).all() for name in values)


def test_bulk_rows_and_directions_after_a_finite_batch():
    scenario = scenario_of(step=MaximalStep(1.5, 2.0))
    trained = trained_of(scenario, DIM, Draws(0, "test", 0))
    v = trained.directions[:, 0]
    np.testing.assert_allclose(
        trained.directions.T @ trained.directions, np.eye(2), atol=1e-12
    )
    assert trained.directions[0, 1] > 0  # v_perp points to the target's side
    # what was taken off every row is the spike: along v, proportional to the second
    # layer
    spike = trained.network.weights - trained.bulk
    np.testing.assert_allclose(spike - np.outer(spike @ v, v), 0, atol=1e-12)
    by_block = [np.ptp(spike[block] @ v) for block in trained.blocks]
    np.testing.assert_allclose(by_block, 0, atol=1e-12)


def test_the_step_of_a_large_batch_tends_to_that_of_an_infinite_one():
    law = Vocabulary([1.0])
    scenario = scenario_of(
        activation="tanh", target="sin", noise=0.0, second_layer=law, step=NoStep()
    )
    exact = run(scenario.replace(step=MaximalStep(3.0)), dim=40)
    large = run(scenario.replace(step=MaximalStep(3.0, 5000.0)), dim=40)
    small = run(scenario.replace(step=MaximalStep(3.0, 2.0)), dim=40)
    assert large["test_error"][0] == pytest.approx(exact["test_error"][0], rel=0.03)
    assert small["test_error"][0] > 1.5 * exact["test_error"][0]


# --- spectrum and resolvent ---


@pytest.mark.parametrize("samples", [0.5, 3.0])
@pytest.mark.parametrize("normalisation", ["p", "n"])
def test_spectrum_counts_the_eigenvalues(samples, normalisation, monkeypatch):
    dense = Dense(samples, 0.1)
    scale = dense.p if normalisation == "p" else dense.n
    values = np.linalg.eigvalsh(dense.Phi.T @ dense.Phi / scale)
    x = np.linspace(-0.1, 1.1 * values[-3], 40)
    scenario = scenario_of()
    points = points_of(scenario, samples)
    line = np.linalg.eigvalsh(dense.Phi.T @ dense.Phi / dense.p)[-4:-2].mean()
    monkeypatch.setattr(
        experiment, "count_outliers", lambda *_: (np.array([[2]]), np.array([[line]]))
    )
    settings = {"x": x, "normalisation": normalisation}
    found = trial(scenario, points, "spectrum", **settings)
    bulk = values[:-2]
    rank = min(dense.n, dense.p)
    zeros = dense.p - rank
    nonzero = bulk[zeros:]
    assert found["atom"][0] == zeros / dense.p
    assert found["lower_edge"][0] == pytest.approx(nonzero[0])
    assert found["upper_edge"][0] == pytest.approx(nonzero[-1])
    assert found["mean_eigenvalue"][0] == pytest.approx(nonzero.sum() / dense.p)
    np.testing.assert_allclose(
        found["outliers"][0, :3], [values[-1], values[-2], np.nan]
    )
    assert found["outlier_count"][0] == 3  # above the line, however many are left out
    expected = [
        ((zeros if at >= 0 else 0) + np.sum(nonzero <= at)) / dense.p for at in x
    ]
    np.testing.assert_allclose(found["cdf"][0], expected)
    assert found["cdf"][0, -1] == pytest.approx(1 - 2 / dense.p)
    assert found["density"][0] @ np.full(40, x[1] - x[0]) == pytest.approx(
        len(nonzero) / dense.p
    )


def test_spectrum_of_linear_features_has_its_atom():
    scenario = scenario_of(activation="linear", step=NoStep(), width_per_dim=2.0)
    found = run(scenario, [0.5, 1.5, 4.0], what="spectrum", x=np.linspace(0.01, 20, 30))
    np.testing.assert_allclose(found["atom"], [0.75, 0.5, 0.5])
    assert (found["lower_edge"] > 0).all()


def test_cells_of_the_density_may_be_uneven():
    x = np.geomspace(1e-3, 30, 50)
    found = run(scenario_of(), [3.0], what="spectrum", x=x)
    middle = np.concatenate(
        [[1.5 * x[0] - 0.5 * x[1]], (x[1:] + x[:-1]) / 2, [1.5 * x[-1] - 0.5 * x[-2]]]
    )
    mass = found["density"][0] @ np.diff(middle)
    inside = np.interp(middle[[0, -1]], x, found["cdf"][0])
    assert mass == pytest.approx(inside[1] - inside[0], abs=0.06)


@pytest.mark.parametrize("samples", [0.5, 3.0])
def test_resolvent_equals_its_definition(samples):
    dense = Dense(samples, 0.1)
    z = np.array([0.5 + 0.2j, -1.0, 3 - 1j])
    found = run(scenario_of(), [samples], what="resolvent", z=z)
    one_hot = np.eye(3)[dense.block]
    for i, at in enumerate(z):
        R = np.linalg.inv(dense.Phi.T @ dense.Phi / dense.p - at * np.eye(dense.p))
        V2 = np.diag(R) @ one_hot / dense.p
        V1 = one_hot.T @ (R * (dense.W0 @ dense.W0.T)) @ one_hot / dense.p
        for name, value in (("V2", V2), ("V1", V1), ("m", np.trace(R) / dense.p)):
            np.testing.assert_allclose(
                found[f"{name}_real"][0, i], value.real, atol=1e-10
            )
            np.testing.assert_allclose(
                found[f"{name}_imag"][0, i], value.imag, atol=1e-10
            )


def test_resolvent_at_several_sizes_and_after_a_finite_batch():
    z = np.array([1 + 1j])
    many = run(scenario_of(), [0.5, 3.0, 0.5], what="resolvent", z=z)
    alone = run(scenario_of(), [3.0], what="resolvent", z=z)
    assert many["m_imag"][1, 0] == pytest.approx(alone["m_imag"][0, 0])
    assert many["m_imag"][0, 0] == many["m_imag"][2, 0]
    after = run(scenario_of(step=MaximalStep(1.0, 2.0)), [3.0], what="resolvent", z=z)
    assert all(np.isfinite(value).all() for value in after.values())


# --- what it declares, memory, errors ---


@pytest.mark.parametrize("what", ["errors", "spectrum", "resolvent"])
def test_all_declared_variables_are_filled_with_their_shapes(what):
    scenario = scenario_of()
    settings = {"x": np.linspace(0.1, 2, 7), "z": np.array([1j, -1.0])}
    found = run(scenario, [0.5, 3.0], what=what, test_samples=500, **settings)
    lengths = {"block": 3, "block_2": 3, "x": 7, "z": 2, "outlier": 8}
    declared = [
        v for v in scenario.questions[what].variables if "experiment" in v.engines
    ]
    assert {v.name for v in declared} == set(found)
    for variable in declared:
        assert found[variable.name].shape == (
            2,
            *(lengths[dim] for dim in variable.dims),
        )
        assert found[variable.name].dtype == np.float64


@pytest.mark.parametrize("what", ["errors", "spectrum", "resolvent"])
@pytest.mark.parametrize(
    ("samples", "width", "step"),
    [
        ([0.4], 1.5, PlantedSpike(1.0)),
        ([0.5, 1.4, 3.0], 1.5, NoStep()),
        ([0.9, 2.0], 1.0, MaximalStep(1.0)),
        ([3.0], 0.7, MaximalStep(1.0, 3.0)),
    ],
)
def test_memory_is_what_is_used(what, samples, width, step, monkeypatch):
    none = np.zeros((len(samples), 1), dtype=int), np.full((len(samples), 1), np.nan)
    monkeypatch.setattr(experiment, "count_outliers", lambda *_: none)
    scenario = scenario_of(width_per_dim=width, step=step)
    points = points_of(
        scenario, samples if what != "errors" else np.repeat(samples, 20)
    )
    settings = {"x": np.linspace(0.1, 2, 50), "z": np.array([1j])}
    settings = prepared(scenario, points, settings)
    announced = scenario.memory(points, what, 300, settings)
    tracemalloc.start()
    scenario.trial(points, what, 300, Draws(0, "test", 0), settings)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak / 1.02 < announced < 1.5 * peak


def test_memory_does_not_grow_with_the_samples_and_is_refused_when_it_cannot_fit():
    scenario = scenario_of()
    small, large = (
        scenario.memory(points_of(scenario, n), "errors", 500, {})
        for n in (3.0, 3000.0)
    )
    assert large == small
    with pytest.raises(InputError, match="GiB of memory"):
        check_memory(scenario.memory(points_of(scenario), "errors", 10**6, {}))


def test_one_dimension_is_refused():
    with pytest.raises(
        InputError, match="Field `dim` must be above 1, the number of target directions"
    ):
        run(scenario_of(), dim=1)
