"""The sign step: sign_step, its table of section 11, its limits of section 8, networks,
and what it refuses.
"""

import dataclasses
import warnings

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.readout import sign_statistics
from giantstep.core.readout.sign_statistics import Component, Slopes
from giantstep.problems.network.layer import Layer
from giantstep.problems.network.rows.batches import BatchRows
from giantstep.problems.network.sign.rows import SignRows

from .sign_settings import PRINTED, ROWS, SAMPLES, TARGETS, network

POPULATION = {"steps__0__batch_per_dim": gs.inf}


def after(scenario, **fields):
    """Return the limit after the step."""
    return gs.predict(scenario, **fields).sel(time=1)


@pytest.mark.parametrize("name", ROWS)
def test_printed_values(name):
    """Every printed digit of section 11, in silence; the loss identity holds to
    rounding.
    """
    gamma, test, train, norm = PRINTED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error", gs.GiantstepWarning)
        result = after(network(name), samples_per_dim=SAMPLES)
    assert result.attrs["theory"] == "exact" and float(result.identity.max()) < 1e-11
    np.testing.assert_allclose(result.test_error, test, atol=5.1e-7)
    np.testing.assert_allclose(
        [result.train_error[1], result.norm[1]], [train, norm], atol=5.1e-7
    )
    steps = after(network(name), what="steps")
    assert float(steps.gamma[0]) == pytest.approx(gamma, abs=5.1e-5)


@pytest.mark.parametrize(
    ("coordinates", "printed"),
    [
        ("gaussian", [0.69317864, 0.12676882, 0.70322902]),
        ("equal", [0.32856582, 0.06399660, 0.34962613]),
        (gs.Coordinates(0.2), [1.02350523, 0.19653975, 0.92124077]),
    ],
)
def test_population_gradient(coordinates, printed):
    """Section 11, alpha0 = inf: it would catch a term of sections 3 and 4 that the
    batch hides.
    """
    result = after(network("L1", coordinates=coordinates, **POPULATION))
    np.testing.assert_allclose(
        [result.test_error, result.train_error, result.norm], printed, atol=5.1e-9
    )


def test_what_a_sparse_target_leaves_of_the_spike():
    """Section 11: u and the lengths of the bulk rows of both blocks."""
    steps = after(
        network("L1", coordinates=gs.Coordinates(0.2), **POPULATION), what="steps"
    )
    assert float(steps.gamma[0]) == pytest.approx(0.856286, abs=5.1e-7)
    np.testing.assert_allclose(steps.B[:, 0], [1.778870, 0.706425], atol=5.1e-7)
    u = np.sqrt(steps.row_norm - steps.B[:, 0] ** 2)
    np.testing.assert_allclose(u, 0.410234, atol=5.1e-7)


def test_equal_coordinates_and_no_dither_are_a_planted_spike():
    """Section 8: B = 0 and all coordinates of one size: w_i = w0_i + rate w*, to every
    digit of `PlantedSpike`.
    """
    sign = network("L4", coordinates="equal", **POPULATION)
    planted = sign.replace(steps=[gs.PlantedSpike(1.2, alignment=1.0)])
    for result in (after(sign), after(planted)):
        assert float(result.test_error) == pytest.approx(0.0468246839, abs=5.1e-11)
        assert float(result.train_error) == pytest.approx(0.0244479031, abs=5.1e-11)
    result = after(network("L2", **POPULATION))
    assert float(result.test_error) == pytest.approx(0.7435211766, abs=5.1e-11)
    assert float(result.train_error) == pytest.approx(0.1743904224, abs=5.1e-11)


def test_gaussian_coordinates_and_no_dither_are_a_planted_spike_at_an_angle():
    """Section 8: B = 0, c3 = 0: gamma = sqrt(2/pi), bulk 1. The page's digits have
    tau = 1e-7, an error of 2e-8.
    """
    sign = network("L2", target=TARGETS["h3"], coordinates="gaussian", **POPULATION)
    planted = sign.replace(
        steps=[gs.PlantedSpike([1.2, -1.2], alignment=np.sqrt(2 / np.pi))]
    )
    for variable, printed in (("test_error", 1.2525778), ("train_error", 0.2783165)):
        assert float(after(sign)[variable]) == pytest.approx(
            float(after(planted)[variable]), abs=1e-9
        )
        assert float(after(sign)[variable]) == pytest.approx(printed, abs=6e-8)
    with_channel = after(network("L4", **POPULATION)).test_error
    assert float(with_channel) == pytest.approx(0.15260011, abs=2.1e-8)


def test_dither_by_the_neurons_own_weights():
    """Section 10: gamma and u of the population gradient with Gaussian coordinates,
    against |B/A1|.
    """
    gamma = [0.7979, 0.8321, 0.8625, 0.9107, 0.9643, 0.9932]
    length = [1, 0.9541, 0.9071, 0.8134, 0.6461, 0.4258]
    slopes = Slopes.of(gs.Function("relu"))
    found = []
    for ratio in (0, 0.1, 0.2, 0.4, 0.8, 1.6):
        mean = ratio * slopes.c1 / slopes.c2
        steps = after(
            network("L1", target=f"z + {mean!r}", noise=0.0, **POPULATION), what="steps"
        )
        found.append(
            [
                float(steps.gamma[0]),
                float(np.sqrt(steps.row_norm[0] - steps.B[0, 0] ** 2)),
            ]
        )
    np.testing.assert_allclose(np.transpose(found), [gamma, length], atol=5.1e-5)


def test_large_batches_tend_to_the_population():
    """Section 8: the difference times alpha0."""
    limit = float(after(network("L1", **POPULATION)).test_error)
    batches = np.array([1e2, 1e3, 1e4, 1e5])
    finite = after(network("L1"), steps__0__batch_per_dim=batches).test_error
    np.testing.assert_allclose(
        (finite - limit) * batches, [0.6806, 0.6794, 0.6793, 0.6793], atol=1e-4
    )


def test_small_rates_are_random_features_at_a_finite_dimension():
    sign = network(
        "L2", target=TARGETS["t3"], coordinates="gaussian", steps__0__rate=1e-6
    )
    result = gs.predict(sign, dim=400).test_error
    assert float(result.sel(time=1)) == pytest.approx(1.259970, abs=5.1e-7)
    assert float(result.sel(time=1)) == pytest.approx(
        float(result.sel(time=0)), rel=0.02
    )


def plain_bulk(activation, target, offset, e, alpha0, noise):
    """Return a plain step as a sign step whose S = a + xi: section 8."""
    laws = [(Component(0.3, 0.0, 2.0), Component(0.7, (0.4 / 0.7) ** 0.5, 0.0))] * len(
        noise
    )
    bulk, _ = sign_statistics.sign_statistics(
        activation, target, laws, offset, e, alpha0, noise
    )
    cells = bulk.cells
    slopes = Slopes.of(activation)
    zero = np.zeros_like(cells.mass)
    one = np.ones_like(cells.mass)
    a = slopes.c1 * cells.pull
    gamma = np.sum(cells.mass * a * cells.target, axis=1) / np.sqrt(
        np.sum(cells.mass * a**2, axis=1)
    )
    cells = dataclasses.replace(
        cells,
        mean=a,
        slope=one,
        rest=zero,
        by_scale=zero,
        second=zero,
        own=zero,
        noise=zero,
        noise_rest=zero,
        radial=zero,
    )
    own = bulk.power * (slopes.v + slopes.c2**2) * bulk.per_sample
    B = slopes.c2 * np.sum(bulk.weights[:, 0] * bulk.nodes, axis=1)
    sampling = np.array([[own, 2 * B * own], [2 * B * own, 2 * own * (2 * B**2 + own)]])
    return dataclasses.replace(
        bulk,
        cells=cells,
        gamma=gamma,
        common=bulk.common + np.moveaxis(sampling, 2, 0),
        mean_in_length=0 * e,
        noise_in_length=0 * e,
        common_in_length=np.stack([2 * e, e**2], axis=2),
        row_norm=1 + 2 * e * B[:, None] + e**2 * (B**2 + own)[:, None],
    )


@pytest.mark.parametrize("batch", [0.5, 3.0])
@pytest.mark.parametrize("name", ["F6", "F5", "H1"])
def test_a_plain_step_is_the_finite_batch(monkeypatch, name, batch):
    """Section 8: with S = a + xi the equations (5.2)-(5.10) are those of
    finite_batch_general, for any law.
    """
    plain = network(name).replace(steps=[gs.MaximalStep(1.3, batch_per_dim=batch)])
    expected = after(plain, samples_per_dim=SAMPLES)
    made = BatchRows.descend

    def with_cells(rows, problem, layer, descent):
        kept = made(rows, problem, layer, descent)
        c0 = problem.activation.hermite(0)[0]
        numbers = descent.samples, problem.numbers["noise"]
        bulk = plain_bulk(
            problem.activation,
            plain.target,
            c0 * (problem.pi @ problem.zeta),
            descent.strength,
            *numbers,
        )
        spike = kept.means[:, 0]
        spike = spike / np.linalg.norm(spike, axis=1, keepdims=True)
        spike *= np.sign(spike[:, :1])
        np.testing.assert_allclose(bulk.gamma, spike[:, 0], rtol=1e-8)
        np.testing.assert_allclose(bulk.row_norm, kept.rows.B[..., 0] ** 2, rtol=1e-8)
        frame = np.stack([bulk.gamma, np.sqrt(1 - bulk.gamma**2)], axis=1)[:, None]
        along = np.einsum("mqa,ma->mq", kept.means, spike)
        means = np.stack([along, np.zeros_like(along)], axis=2)
        return Layer(means=means, frame=frame, rows=SignRows.of(bulk))

    monkeypatch.setattr(BatchRows, "descend", with_cells)
    found = after(plain, samples_per_dim=SAMPLES)
    for variable in ("test_error", "train_error", "norm"):
        # of two rules of the labels
        np.testing.assert_allclose(found[variable], expected[variable], rtol=1e-8)


def test_blocks_of_one_sign_are_one_block():
    """Only sign(zeta) survives: it would catch |zeta| left in the strength of the step,
    or singular algebra.
    """
    one = network("H1", second_layer=gs.Vocabulary([0.5, -0.3], [0.5, 0.5]))
    four = network("H1", second_layer=gs.Vocabulary([0.3, 0.7, -0.1, -0.5], [0.25] * 4))
    np.testing.assert_allclose(
        after(four).test_error, after(one).test_error, rtol=1e-11
    )


def test_an_odd_activation_does_not_see_the_sign():
    one = network("F1", second_layer=gs.Vocabulary([0.8]))
    two = network("F1", second_layer=gs.Vocabulary([1.5, -0.1]))
    np.testing.assert_allclose(after(two).test_error, after(one).test_error, rtol=1e-11)


def test_splitting_a_component_of_the_law_changes_nothing():
    slopes = network("F5")
    pieces = []
    for law in ([Component(1, 0, 1)], [Component(0.3, 0, 1), Component(0.7, 0, 1)]):
        arrays = np.zeros(1), np.array([[1.0, -1.0]]), np.array([2.0]), np.array([0.1])
        bulk, spike = sign_statistics.sign_statistics(
            slopes.activation, slopes.target, [law], *arrays
        )
        pieces.append([float(bulk.gamma[0]), *bulk.row_norm[0], *spike[0]])
    np.testing.assert_allclose(*pieces, rtol=1e-13)


def test_scaling_labels_and_second_layer():
    """Section 8: (g, zeta, delta) -> (c g, c zeta, c^2 delta) at the same rate: test ->
    c^2 test.
    """
    scaled = network("H1").replace(
        target=f"3*({TARGETS['t3']})",
        second_layer=gs.Vocabulary([4.5, -1.5], [0.3, 0.7]),
        noise=0.05 * 9,
    )
    np.testing.assert_allclose(
        after(scaled).test_error, 9 * after(network("H1")).test_error, rtol=1e-9
    )


def test_points_of_a_grid_are_solved_one_by_one():
    """Sets with other numbers of cells stand side by side: padding must not be seen."""
    batches = [0.5, 40.0, gs.inf]
    together = after(
        network("F1"), steps__0__batch_per_dim=batches, steps__0__rate=[0.5, 3.0]
    )
    for batch in batches:
        alone = after(network("F1", steps__0__batch_per_dim=batch, steps__0__rate=3.0))
        found = together.test_error.sel(
            {"steps.0.batch_per_dim": batch, "steps.0.rate": 3.0}
        )
        assert float(found) == pytest.approx(float(alone.test_error), rel=1e-11)


def test_sparsity_is_a_field_of_a_grid():
    grid = after(network("F2"), coordinates__nonzero=[0.1, 1.0]).test_error
    dense = after(network("F2", coordinates="gaussian")).test_error
    np.testing.assert_allclose(grid, [0.364122, float(dense)], atol=5.1e-7)


def test_steps_that_turn_with_the_inputs_ignore_the_coordinates():
    plain = network("F2").replace(steps=[gs.MaximalStep(1.2, batch_per_dim=2.0)])
    other = plain.replace(coordinates="equal")
    np.testing.assert_array_equal(
        gs.predict(plain).test_error, gs.predict(other).test_error
    )


def test_the_usual_coordinates_leave_no_trace_in_a_stored_scenario():
    """Stores and seeds know scenarios by their content: those of before must keep
    it.
    """
    scenario = network("F1")
    assert "coordinates" not in scenario.content()
    assert network("F2").content()["coordinates"] == {
        "nonzero": 0.1,
        "sizes": "gaussian",
    }
    assert network("F2").digest() != scenario.digest()


def test_resolvent():
    """Section 7, F3, both printed values."""
    found = after(network("F3"), what="resolvent", z=[0.3 + 0.1j, 1 + 0.1j])
    np.testing.assert_allclose(found.m_real, [-1.14724, -0.85091], atol=5.1e-6)
    np.testing.assert_allclose(found.m_imag, [2.16621, 0.65734], atol=5.1e-6)


# -- networks --------------------------------------------------------------------------


def z_scores(scenario, dim, trials, seed):
    both = gs.compare(
        scenario,
        dim=dim,
        trials=trials,
        seed=seed,
        samples_per_dim=SAMPLES,
        test_samples=4000,
    )
    return both.sel(time=1)


def test_a_small_network_with_zero_coordinates():
    """Eight networks: an error of 5% in the limit (the law of the coordinates, a sign,
    sqrt(d)) would be seen.
    """
    both = z_scores(network("F2"), 150, 8, 3601)
    assert float(np.abs(both.test_error_gap).max()) < 4 * float(
        both.test_error_stderr.sel(source="experiment").max()
    )
    assert float(np.abs(both.train_error_z).max()) < 4.5


def test_where_the_rows_of_a_network_are():
    """The alignment, lengths and overlaps of real rows with the target, for a sparse
    one and both signs.
    """
    scenario = network("F5")
    both = gs.compare(scenario, what="steps", dim=600, trials=6, seed=3602).sel(time=1)
    limit, real = (both.sel(source=source) for source in ("limit", "experiment"))
    np.testing.assert_allclose(real.U[:, 0], limit.U[:, 0], rtol=0.03)
    np.testing.assert_allclose(real.row_norm, limit.row_norm, rtol=0.01)
    np.testing.assert_allclose(real.s, limit.s, rtol=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["F1", "F3", "F5", "H1", "M5", "L1"])
def test_networks_at_dimension_800(name):
    """Within 1% and three standard errors of the limit with its finite-size term: six
    settings, real training.
    """
    changes = POPULATION if name == "L1" else {}
    both = gs.compare(
        network(name, **changes), dim=800, trials=40, seed=3610, samples_per_dim=SAMPLES
    ).sel(time=1)
    limit, real = (
        both.test_error.sel(source=source) for source in ("theory", "experiment")
    )
    allowed = 0.01 * limit + 3 * both.test_error_stderr.sel(source="experiment")
    assert (np.abs(limit - real) < allowed).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": [gs.SignStep(1.0, 2.0), gs.MaximalStep(1.0, batch_per_dim=2.0)]},
        {"steps": [gs.SignStep(1.0, 2.0), gs.SignStep(0.5, 2.0)]},
        {"target": "z1 + z1*z2"},
        {"inputs": gs.InputBlocks([2.5, 0.5], [0.25, 0.75], [0.5, 0.5])},
        {"rows": "gaussian"},
        {"second_layer": "gaussian"},
        {"target": "sign(z)", "noise": 0.0, "readout": gs.Logistic(0.1)},
    ],
)
def test_networks_are_trained_where_the_limit_has_no_theory(changes):
    scenario = network("F2").replace(changes)
    real = gs.simulate(scenario, dim=30, trials=1, test_samples=100)
    assert np.isfinite(real.test_error).all()
    with pytest.raises(
        gs.InputError,
        match=r"has no limit here: what is missing is a theory of .*gs\.simulate",
    ):
        gs.predict(scenario)


# -- bad input -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"steps__0__rate": 0.0}, "steps.0.rate"),
        ({"steps__0__rate": -1.0}, "steps.0.rate"),
        ({"steps__0__rate": gs.inf}, "steps.0.rate"),
        ({"steps__0__batch_per_dim": 0.0}, "steps.0.batch_per_dim"),
        ({"second_layer": gs.Vocabulary([1, 0])}, "second_layer.values"),
        ({"activation": "sign"}, "activation"),
        ({"coordinates": "dense"}, "coordinates"),
        ({"coordinates": 0.1}, "coordinates"),
        ({"coordinates__nonzero": 0.0}, "coordinates.nonzero"),
        ({"coordinates__nonzero": 1.5}, "coordinates.nonzero"),
    ],
)
def test_bad_input_is_named(wrong, said):
    with pytest.raises(gs.InputError, match=f"`{said}`"):
        network("F2").replace(**wrong)


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"activation": "h2(z)"}, "without a linear part, E sigma"),
        ({"target": "z**2 - 1", **POPULATION}, "for a target without a linear part"),
        ({**POPULATION}, "coordinates of the target are zero"),
    ],
)
def test_the_limit_refuses_signs_that_it_leaves_open(changes, missing):
    with pytest.raises(gs.InputError, match=missing):
        gs.predict(network("F2").replace(changes))


@pytest.mark.parametrize("what", ["variance", "sensitivity", "weights", "spikes"])
def test_questions_without_a_theory_are_refused(what):
    with pytest.raises(gs.InputError, match=f'a theory of what="{what}"'):
        gs.predict(network("L1", **POPULATION), what=what)


@pytest.mark.filterwarnings(
    "ignore:After 1 step z is not learnt:giantstep.GiantstepWarning"
)
def test_a_target_without_a_linear_part_is_answered_on_a_batch():
    result = after(network("F1", target="z**2 - 1"))
    assert bool(result.converged) and float(result.identity) < 1e-9


def test_overlaps_that_decide_signs_are_noticed():
    """(6.2): chi of L4 at d = 800 is 1.4, of L5 .25 with zeros, of M5 .003."""
    with pytest.warns(gs.GiantstepWarning, match=r"chi = 1\.4"):
        gs.predict(network("L4"), dim=800)
    with pytest.raises(gs.InputError, match=r"chi = 0\.25\d? of"):
        gs.predict(network("L5"), dim=800)
    with warnings.catch_warnings():
        warnings.simplefilter("error", gs.GiantstepWarning)
        gs.predict(network("M5"), dim=800)
    with pytest.warns(gs.GiantstepWarning, match="below 0.5 at a dim below 2000"):
        gs.predict(network("H3"), dim=800)


def test_the_best_possible_error_knows_no_law_of_coordinates():
    """A decoder of equal coordinates may beat what is best for directions of a uniform
    law.
    """
    assert gs.best_possible(network("F1")).samples_per_dim == 2.0
    with pytest.raises(gs.InputError, match="`coordinates`"):
        gs.best_possible(network("F2"))
    plain = network("F2").replace(steps=[gs.MaximalStep(1.0, batch_per_dim=2.0)])
    assert gs.best_possible(plain).samples_per_dim == 3.5


def test_eps_leads_from_the_sign_to_the_plain_gradient():
    """A tiny eps is the sign; a huge one, with a rate as huge, the gradient itself. The
    limit knows neither.
    """
    net = network("F1").replace(samples_per_dim=1.5)
    drawn = {"dim": 40, "trials": 2}
    tiny, sign = (
        gs.simulate(net.replace({"steps.0.eps": eps}), paired=True, **drawn)
        for eps in (1e-9, 0.0)
    )
    np.testing.assert_allclose(tiny.test_error, sign.test_error, rtol=1e-6)
    huge = net.replace({"steps.0.eps": 1e7, "steps.0.rate": 1.5e7})
    plain = net.replace(
        steps=[gs.MaximalStep(1.5, batch_per_dim=net.steps[0].batch_per_dim)]
    )
    found, expected = (
        gs.simulate(one, paired=True, **drawn).test_error for one in (huge, plain)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    with pytest.raises(gs.InputError, match="eps > 0"):
        gs.predict(huge)


def test_the_spectrum_of_equal_coordinates_is_real_without_a_word():
    """Warnings are errors here: the outliers take real parts of what is complex beside
    the axis.
    """
    net = gs.Network(
        target="tanh(z)",
        noise=0.1,
        width_per_dim=1.5,
        samples_per_dim=2.0,
        coordinates="equal",
        steps=[gs.SignStep(1.0, batch_per_dim=3.0)],
    )
    with pytest.warns(gs.GiantstepWarning, match="no upper edge"):
        result = gs.predict(net, what="spectrum")
    assert bool(result.converged) and result.upper_edge.values[0] == pytest.approx(
        2.7088566, abs=1e-6
    )
