"""Steps and read-out on inputs with a covariance: printed values of structured_inputs,
a second route, invariances.
"""

import dataclasses
import warnings

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.readout import (
    Equations,
    FiniteSize,
    ridge_errors,
    solve_first_order,
)
from giantstep.problems.network import gradient
from giantstep.problems.network.start import planted, start
from giantstep.problems.network.views import views

from .inside import (
    advanced,
    as_network,
    labelled,
    layers_of,
    only_the_experiment_answers,
    problem_of,
)
from .inside import described as seen_by
from .second_route import read_out
from .structured_settings import (
    LOW_RANK,
    MANY,
    ONE,
    PLANES,
    SETTINGS,
    SIGNS,
    T1,
    network,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore::giantstep.core.base.errors.GiantstepWarning"
)
EVERY = {**SETTINGS, **PLANES, **MANY}


@pytest.mark.usefixtures("independent_means")
@pytest.mark.parametrize("name", EVERY)
def test_printed_values(name):
    """Section 12: one and two steps and directions, up to 400 atoms, whitened steps,
    Gaussian rows; also d = 400.
    """
    scenario, expected, finite = EVERY[name]
    result = gs.predict(scenario).isel(time=-1)
    assert bool(result.converged) and float(result.identity) < 1e-12
    for variable, value, digits in zip(
        ("test_error", "train_error", "norm"), expected, (5.1e-9, 5.1e-8, 5.1e-8)
    ):
        assert float(result[variable]) == pytest.approx(value, abs=digits)
    if finite is not None:
        assert float(gs.predict(scenario, dim=400).test_error[-1]) == pytest.approx(
            finite, abs=5.1e-7
        )


@pytest.mark.usefixtures("independent_means")
@pytest.mark.parametrize("name", LOW_RANK)
def test_printed_values_of_low_ranks(name):
    """The bare theory where it does not apply (d = 400), to the printed digits all the
    same.
    """
    scenario, expected = LOW_RANK[name]
    assert float(gs.predict(scenario, dim=400).test_error[-1]) == pytest.approx(
        expected, abs=5.1e-9
    )


@pytest.mark.usefixtures("independent_means")
@pytest.mark.slow
@pytest.mark.parametrize(("dim", "expected"), [(400, 0.38969), (1200, 0.42834)])
def test_split_classes(dim, expected):
    """Structured_inputs (8.2): K, 400 atoms and 1200 that are binned."""
    result = gs.predict(LOW_RANK["K"][0], dim=dim, theory="split")
    assert bool(result.converged) and float(result.test_error[1]) == pytest.approx(
        expected, abs=5.1e-6
    )


@pytest.mark.usefixtures("independent_means")
@pytest.mark.parametrize(
    ("dim", "expected", "digits"), [(400, 0.74633, 5.1e-6), (800, 0.7355, 5.1e-5)]
)
def test_quadratic_channels(dim, expected, digits):
    """Structured_inputs (8.1): L, every atom by itself; 800 atoms are binned."""
    atoms = np.arange(1.0, dim + 1)
    inputs = gs.InputBlocks(
        atoms**-0.8, np.full(dim, 1 / dim), (atoms > dim / 2).astype(float)
    )
    result = gs.predict(
        LOW_RANK["L"][0].replace(inputs=inputs), dim=dim, theory="quadratic"
    )
    assert float(result.identity.max()) < 1e-12
    assert float(result.test_error[1]) == pytest.approx(expected, abs=digits)


def test_quadratic_channels_at_large_dimensions():
    """Their noise is of order 1/d, and vanishes with the fluctuation of one atom on the
    sphere.
    """
    scenario = EVERY["E"][0]
    gaps = []
    for dim in (4000, 40_000):
        errors = [
            float(gs.predict(scenario, dim=dim, theory=t).test_error[1])
            for t in ("quadratic", "exact")
        ]
        gaps.append(errors[0] - errors[1])
    assert gaps[0] / gaps[1] == pytest.approx(10, rel=0.05) and gaps[0] > 1e-6
    assert "finite dim" in refused(lambda: gs.predict(scenario, theory="quadratic"))


def test_split_classes_at_large_dimensions():
    """Where fluctuations are small the split classes give what their linearisation
    gives, and sums over classes too.
    """
    scenario = EVERY["C"][0]
    for dim, close in ((400, 1e-3), (40_000, 1e-5)):
        split, plain = (
            gs.predict(scenario, dim=dim, theory=theory)
            for theory in ("split", "exact")
        )
        assert 0 < abs(float(split.test_error[1] / plain.test_error[1]) - 1) < close
        assert split.Q2.shape == plain.Q2.shape
        np.testing.assert_allclose(split.Q2.sum("block"), split.norm, rtol=1e-12)
    assert "finite dim" in refused(lambda: gs.predict(scenario, theory="split"))
    plain = scenario.replace(inputs=None)
    assert "inputs are isotropic" in refused(
        lambda: gs.predict(plain, theory="quadratic", dim=90)
    )


def test_silent_directions_are_eliminated_exactly():
    """What the fit sees against all coordinates: the read-out of E, M and F with every
    channel by itself.
    """
    for name in ("E", "M", "F"):
        features, bulk, s = described(name)
        sizes = (s.samples_per_dim, s.width_per_dim, s.ridge)
        plain = read_out(
            spelled_out(features, bulk),
            features.pi,
            *sizes,
            product=bulk.product,
            masses=bulk.masses,
        )
        result = gs.predict(s).isel(time=-1)
        for variable, other in (
            ("test_error", "test"),
            ("train_error", "train"),
            ("norm", "norm"),
        ):
            assert float(result[variable]) == pytest.approx(plain[other], rel=1e-8)


def spelled_out(features, bulk):
    """Return the features with the channel variables of the spread in place of (Q^T
    tau, y), silent directions too.
    """
    spread = bulk.spread
    k = len(features.pi)
    nodes = features.weights.shape[1]
    m = features.kappa.shape[1]
    L = features.Jp.shape[1]
    silent = np.linalg.svd(np.eye(len(spread.seen)) - spread.seen @ spread.seen.T)[0]
    silent = silent[:, : len(spread.seen) - m - L]
    units = features.T0[0].reshape(m + L + 1, k, nodes)
    T0 = np.einsum("qvc,vqn->cqn", spread.rows, units).reshape(1, -1, nodes)
    rest = np.concatenate([spread.seen[:, m:], silent], axis=1)
    Jp = np.einsum("rl,qrc->lcq", rest, spread.JU).reshape(1, rest.shape[1], -1)
    h1 = np.pad(features.h1, ((0, 0), (0, silent.shape[1]), (0, 0)))
    return dataclasses.replace(
        features, T0=T0, Jp=Jp, h1=h1, omega=np.ones((1, T0.shape[1]))
    )


@pytest.mark.parametrize(
    ("name", "gammas"),
    [
        ("A", [1]),
        ("C", [0.8321]),
        ("D", [0.7683]),
        ("E", [0.6396]),
        ("F", [0.6852]),
        ("H", [0.8598]),
        ("I", [0.8256]),
        ("M", [0.7498]),
        ("N", [0.7667]),
        ("O", [0.9968]),
        ("P", [1]),
        ("R", [0.9242]),
        ("Y1", [0.7986, 0]),
        ("Y2", [0.8822, 0.9007]),
    ],
)
def test_printed_alignments(name, gammas):
    """Gamma of section 12: what of the target's directions the rows have learnt."""
    seen = gs.predict(EVERY[name][0], what="steps").gamma[-1].values
    np.testing.assert_allclose(seen, gammas, atol=5.1e-5)


@pytest.mark.usefixtures("independent_means")
@pytest.mark.parametrize(
    ("name", "batch", "expected"),
    [
        ("C", 1000, 0.160196),
        ("C", 20, 0.167611),
        ("E", 20, 1.210133),
        ("D", 5, 0.635099),
    ],
)
def test_one_step_on_a_finite_batch(name, batch, expected):
    """Section 7, d = 400."""
    result = gs.predict(EVERY[name][0].replace(batch_per_dim=float(batch)), dim=400)
    assert float(result.identity.max()) < 1e-12
    assert float(result.test_error[1]) == pytest.approx(expected, abs=5.1e-7)


def test_the_noise_of_a_batch_of_equal_blocks_is_isotropic():
    scenario = EVERY["E"][0].replace(batch_per_dim=20.0)
    equal = scenario.replace(inputs=gs.InputBlocks([1, 1], [0.5, 0.5], [0.3, 0.7]))
    plain = scenario.replace(inputs=None)
    for variable in ("test_error", "train_error", "norm"):
        np.testing.assert_allclose(
            gs.predict(equal)[variable], gs.predict(plain)[variable], rtol=1e-12
        )


def test_finite_batches_without_a_theory():
    for fields in ({"precondition": 1.0}, {"steps": 2, "rate": 1.0}):
        scenario = EVERY["C"][0].replace(batch_per_dim=20.0, **fields)
        only_the_experiment_answers(
            scenario, "batch_per_dim", "a theory of the noise of finite batches", dim=40
        )


@pytest.mark.usefixtures("independent_means")
def test_the_table_of_mixed_targets():
    """Section 10: error against the rate for targets in the leading, in both and in the
    trailing eigenspace.
    """
    rates = [0, 0.25, 0.5, 1, 2, 4, 8]
    expected = {
        (1, 0): [0.18335, 0.14035, 0.10116, 0.07627, 0.07132, 0.07885, 0.10195],
        (0.5, 0.5): [0.29510, 0.26522, 0.26303, 0.26113, 0.27346, 0.29339, 0.30810],
        (0, 1): [0.40684, 0.27317, 0.20035, 0.16845, 0.15656, 0.14359, 0.10499],
    }
    for shares, errors in expected.items():
        inputs = gs.InputBlocks([4, 0.25], [0.2, 0.8], shares)
        scenario = network(
            "tanh", "sin(z)", inputs, ONE, [1.0], (2, 1, 0.05, 0.05)
        ).replace(rate=1.0)
        result = gs.predict(scenario, rate=rates, dim=1000)
        np.testing.assert_allclose(result.test_error.isel(time=1), errors, atol=5.1e-6)
    plain = gs.predict(scenario.replace(inputs=None, rate=4.0), dim=1000)
    assert float(plain.test_error[1]) == pytest.approx(0.08415, abs=5.1e-6)


@pytest.mark.usefixtures("independent_means")
def test_more_steps_recover_the_direction():
    """Section 10: two eigenspaces need two steps."""
    inputs = gs.InputBlocks([4, 0.25], [0.2, 0.8], [0.5, 0.5])
    scenario = network("relu", T1, inputs, SIGNS, [1.0] * 3, (2, 1, 0.05, 0.05))
    np.testing.assert_allclose(
        gs.predict(scenario, dim=1000).test_error,
        [1.44319, 1.11978, 0.94564, 0.75377],
        atol=5.1e-6,
    )
    gamma = gs.predict(scenario, what="steps").gamma[:, 0]
    np.testing.assert_allclose(gamma, [0, 0.7498, 1, 1], atol=5.1e-5)


def simplified(name, change):
    """Return the test error at d = 400 of a setting whose bulk is changed,
    section 10.
    """
    features, bulk, s = described(name)
    sizes = (
        np.array([value])
        for value in (s.samples_per_dim / s.width_per_dim, s.width_per_dim, s.ridge)
    )
    first = solve_first_order(Equations.of_ridge(features, *sizes, change(bulk)))
    return float(ridge_errors(first, FiniteSize(np.array([1 / 400]))).test[0])


def with_bulk_rows_only(bulk):
    """Return channels that know the initial overlaps only: JU_q = L^1/2 B_q(L),
    Js = 0.
    """
    spread = bulk.spread
    JU = np.zeros_like(spread.JU)
    JU[:, np.arange(JU.shape[1]), spread.columns] = spread.diagonal
    return dataclasses.replace(
        bulk, spread=dataclasses.replace(spread, JU=JU, Js=np.zeros_like(spread.Js))
    )


def without_theta(bulk):
    """Return channels without the fluctuations of w0^T Sigma B^2 w0."""
    spread = bulk.spread
    JU = spread.JU.copy()
    Js = spread.Js.copy()
    first = spread.columns[0]
    JU[:, :, :first] = 0.0
    Js[:, :first] = 0.0
    return dataclasses.replace(bulk, spread=dataclasses.replace(spread, JU=JU, Js=Js))


@pytest.mark.parametrize(("name", "expected"), [("E", 1.2745), ("M", 0.6127)])
def test_the_bulk_is_no_multiple_of_the_initial_weights(name, expected):
    """Section 10, d = 400: B_q(lambda) -> s_q in the bulk."""
    eigenvalues = as_network(EVERY[name][0]).input_law().eigenvalues

    def scalar(bulk):
        s = np.sqrt(bulk.row_norm[0])
        return dataclasses.replace(
            bulk, product=eigenvalues[:, None, None] * np.outer(s, s)
        )

    assert simplified(name, scalar) == pytest.approx(expected, abs=5.1e-5)


@pytest.mark.usefixtures("independent_means")
@pytest.mark.parametrize(
    ("name", "expected", "isotropic"), [("E", 0.9746, 0.4006), ("M", 0.6214, 0.2976)]
)
def test_isotropic_theories_are_far_off(name, expected, isotropic):
    """Section 10, d = 400: planted shifts with the true u, s and gamma on isotropic
    inputs; the same network there.
    """
    s = EVERY[name][0]
    steps = gs.predict(s, what="steps").isel(time=1)
    gamma = float(steps.gamma[0])
    bulk = steps.s.values
    problem = problem_of(s.replace(inputs=None))
    strength = steps.U.values[:, 0] / gamma  # U_q has the overlap gamma |U_q| with z
    layer = planted(problem, np.array([gamma]), strength[None], bulk[None])
    features = labelled(problem, seen_by(problem, layer))
    plain = read_out(
        features, features.pi, s.samples_per_dim, s.width_per_dim, s.ridge, 400
    )
    assert plain["test"] == pytest.approx(expected, abs=5.1e-5)
    same = gs.predict(s.replace(inputs=None), dim=400)
    assert float(same.test_error[1]) == pytest.approx(isotropic, abs=5.1e-5)


@pytest.mark.parametrize(
    ("name", "change", "expected", "right"),
    [
        ("A", with_bulk_rows_only, 0.6481, 0.5881),
        ("I", with_bulk_rows_only, 1.1493, 1.0549),
        ("H", without_theta, 0.9517, 0.9311),
        ("L", without_theta, 0.7968, 0.7151),
    ],
)
def test_what_the_channels_are_worth(name, change, expected, right):
    """Section 10, d = 400: the error without some of the channels, and with all of
    them.
    """
    assert simplified(name, change) == pytest.approx(expected, abs=5.1e-5)
    assert simplified(name, lambda bulk: bulk) == pytest.approx(right, abs=5.1e-5)


def test_the_resolvent():
    """Section 6."""
    for name, z, expected in (
        ("E", 0.2 + 0.1j, -1.37646 + 3.19386j),
        ("C", 1 + 0.1j, -1.02939 + 0.49189j),
    ):
        result = gs.predict(EVERY[name][0], what="resolvent", z=[z]).isel(time=-1)
        assert float(result.m_real[0]) == pytest.approx(expected.real, abs=5.1e-6)
        assert float(result.m_imag[0]) == pytest.approx(expected.imag, abs=5.1e-6)


def closed_form(eigenvalues, fractions, shares, moments, target, sizes):
    """Return the error of random features, section 5: the deterministic equivalent of
    ridge regression.
    """
    (c0, c1, square), (g1, rest) = moments, target
    alpha, beta, ridge, noise = sizes
    rho = alpha / beta
    x = c1**2 * eigenvalues
    mu2 = square - c0**2 - c1**2
    low = 1e-9
    high = 1e9

    def excess(N2):
        left = 1 + rho - np.sqrt((1 - rho) ** 2 + 4 * ridge / (beta * N2))
        return left - (2 / beta) * (fractions @ (x / (x + N2)) + mu2 / N2)

    for _ in range(200):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if excess(middle) < 0 else (low, middle)
    N2 = high
    N1 = N2 / 2 * (1 - rho + np.sqrt((1 - rho) ** 2 + 4 * ridge / (beta * N2)))
    q = fractions @ (x / (x + N2)) ** 2
    Y = ((1 - N1 / N2) ** 2 + (N1 / N2) ** 2 * q / (beta - q)) / rho
    chi = (fractions @ (x / (x + N2) ** 2) + mu2 / N2**2) / (beta - q)
    bias = (
        g1**2 * (shares @ (1 / (x + N2) ** 2) + chi * (shares @ (x / (x + N2) ** 2)))
        + rest / N2**2
    )
    return (N2**2 * bias + noise * Y) / (1 - Y) + noise


@pytest.mark.parametrize("count", [1, 4, 60])
def test_random_features_have_a_closed_form(count):
    """Section 5, T = 0, random spectra of 1 to 60 blocks: relu, sin z + h3/3."""
    rng = np.random.default_rng(count)
    eigenvalues, fractions, shares = rng.exponential(size=(3, count)) + 0.05
    fractions = fractions / fractions.sum()
    shares = shares / shares.sum()
    inputs = gs.InputBlocks(eigenvalues, fractions, shares)
    sizes = (1.3, 0.8, 0.07, 0.1)
    scenario = network("relu", "z + h3(z)/3", inputs, ONE, [], sizes)
    moments = (1 / np.sqrt(2 * np.pi), 0.5, 0.5)
    expected = closed_form(
        eigenvalues / (eigenvalues @ fractions),
        fractions,
        shares,
        moments,
        (1.0, 6 / 9),
        sizes,
    )
    assert float(gs.predict(scenario).test_error[0]) == pytest.approx(
        expected, rel=1e-12
    )


def errors(scenario, **inputs):
    return gs.predict(
        scenario.replace(inputs=gs.InputBlocks(**inputs))
    ).test_error.values


def test_invariances():
    """Section 5: splitting and reordering blocks, rescaling, a class twice, a step of
    rate 0, equal blocks.
    """
    scenario = EVERY["E"][0]
    base = gs.predict(scenario).test_error.values
    split = {
        "eigenvalues": [1, 4, 0.2, 1],
        "fractions": [0.1, 0.1, 0.5, 0.3],
        "shares": [0.2, 0.2, 0.5, 0.1],
    }
    np.testing.assert_allclose(errors(scenario, **split), base, rtol=1e-12)
    scaled = {
        "eigenvalues": [40, 10, 2],
        "fractions": [0.1, 0.4, 0.5],
        "shares": [2, 3, 5],
    }
    np.testing.assert_allclose(errors(scenario, **scaled), base, rtol=1e-12)
    double = scenario.replace(second_layer=gs.Vocabulary([1, 1, -0.5], [0.3, 0.4, 0.3]))
    np.testing.assert_allclose(gs.predict(double).test_error, base, rtol=1e-10)
    waiting = gs.predict(scenario.replace(steps=2, rate=[0.0, 1.5])).test_error
    np.testing.assert_allclose(waiting, base[[0, 0, 1]], rtol=1e-10)
    larger = scenario.replace(
        target="3*(0.5 + z + 0.4*h2(z))", noise=0.9, rate=[1.5 / 9]
    )
    larger = larger.replace(second_layer=gs.Vocabulary([3, -1.5], [0.7, 0.3]))
    np.testing.assert_allclose(gs.predict(larger).test_error, 9 * base, rtol=1e-10)
    plain = gs.predict(scenario.replace(inputs=None)).test_error.values
    for count in (1, 3):
        equal = {
            "eigenvalues": [3.0] * count,
            "fractions": [1 / count] * count,
            "shares": range(1, count + 1),
        }
        np.testing.assert_allclose(errors(scenario, **equal), plain, rtol=1e-11)


def described(name):
    scenario = {**EVERY, **LOW_RANK}[name][0]
    problem = problem_of(scenario)
    seen = seen_by(problem, layers_of(problem)[-1])
    return labelled(problem, seen), seen.bulks[0], scenario


@np.errstate(invalid="ignore")  # no neurons of infinitely many
def test_the_spread_is_the_derivative_of_the_map():
    """Section 5: JU, JB and Js of two steps against central differences, by spectator
    classes of fraction 0.
    """
    h = 1e-4
    problem = problem_of(
        EVERY["H"][0], zeta=[1.0, -1.0, 1.0, 1.0], pi=[0.5, 0.5, 0.0, 0.0]
    )
    begin = start(problem)
    spread = advanced(problem, begin).rows
    for c, column in enumerate(np.flatnonzero(~np.array(spread.is_length))):
        U = begin.means.copy()
        U[0, 2:, c] = np.array([h, -h]) * np.sqrt(problem.coordinate_eigenvalues[c])
        end = advanced(problem, dataclasses.replace(begin, means=U))
        np.testing.assert_allclose(
            (end.means[0, 2] - end.means[0, 3]) / (2 * h),
            spread.JU[0, 0, :, column],
            atol=1e-6,
        )
        np.testing.assert_allclose(
            (end.rows.B[0, 2] - end.rows.B[0, 3]) / (2 * h),
            spread.JB[0, 0, :, column],
            atol=1e-6,
        )
        change = np.diff(end.scale(problem)[0, 2:])[0] / (-2 * h)
        assert change == pytest.approx(spread.Js[0, 0, column], abs=1e-6)


def test_the_derivative_of_the_response():
    """The packed derivative against central differences of the inner solution."""
    features, bulk, s = described("E")
    sizes = (
        np.array([value])
        for value in (s.samples_per_dim / s.width_per_dim, s.width_per_dim, s.ridge)
    )
    response = solve_first_order(Equations.of_ridge(features, *sizes, bulk)).response
    A = np.array([[[0.3, 0.1], [0.1, -0.2]]])
    e = np.array([[0.2, 0.4]])
    h = 1e-5
    moved = [
        bulk.solve(
            response.Vh1 + sign * h * A,
            response.D + sign * h * e,
            response.block_width,
            response,
        )
        for sign in (1, -1)
    ]
    dS, dR = bulk.tangents(response).apply(A, e)
    np.testing.assert_allclose((moved[1].S - moved[0].S) / (2 * h), dS, rtol=1e-6)
    np.testing.assert_allclose((moved[1].R - moved[0].R) / (2 * h), dR, rtol=1e-6)


def test_a_covariance_is_its_blocks():
    """Every eigenvalue by itself, with the target turned inside the eigenspaces, and
    bins of equal eigenvalues.
    """
    scenario = EVERY["C"][0]
    rng = np.random.default_rng(3)
    for sizes in (
        [10, 30],
        [121, 359],
    ):  # 480 atoms are binned; the bins end where the blocks do
        parts = [rng.standard_normal(size) for size in sizes]
        target = np.concatenate(
            [part / np.linalg.norm(part) * np.sqrt(0.5) for part in parts]
        )
        given = gs.InputCovariance(np.repeat([2.5, 0.5], sizes), target)
        blocks = gs.InputBlocks([2.5, 0.5], np.array(sizes) / sum(sizes), [0.5, 0.5])
        results = [
            gs.predict(scenario.replace(inputs=inputs)).test_error
            for inputs in (given, blocks)
        ]
        np.testing.assert_allclose(*results, rtol=1e-9)


def test_defaults_leave_no_trace():
    """A scenario without a covariance has the content, and so the random numbers, it
    had before the field existed.
    """
    content = gs.FewSteps.example().content()
    assert "inputs" not in content and "precondition" not in content
    told = EVERY["P"][0]
    assert (
        gs.FewSteps(**{k: v for k, v in told.content().items() if k != "family"})
        == told
    )


def test_numbers_of_the_inputs_may_vary():
    scenario = EVERY["C"][0].replace(inputs=gs.PowerLaw(0.3, 0.2, 10), rate=3.0)
    grid = gs.predict(scenario, inputs__exponent=[0.3, 0.9], precondition=[0.0, 1.0])
    for exponent in (0.3, 0.9):
        alone = gs.predict(
            scenario.replace(inputs__exponent=exponent, precondition=1.0)
        )
        inside = grid.sel({"inputs.exponent": exponent, "precondition": 1.0})
        np.testing.assert_allclose(inside.test_error, alone.test_error, rtol=1e-13)
        assert float(inside.effective_rank) == float(alone.effective_rank)


def test_rates_in_one_batch_are_the_rates_alone():
    """Each rate has its own bulk and its own spread of the classes; whitened points lie
    beside them.
    """
    scenario = EVERY["M"][0].replace(rate=1.0)
    grid = gs.predict(
        scenario, rate=[0.5, 3.0], precondition=[0.0, 0.5], ridge=[0.05, 0.5]
    )
    for rate, whitening, ridge in ((0.5, 0.5, 0.05), (3.0, 0.0, 0.5)):
        alone = gs.predict(
            scenario.replace(rate=rate, precondition=whitening, ridge=ridge)
        )
        inside = grid.sel(rate=rate, precondition=whitening, ridge=ridge)
        for name in (
            "test_error",
            "train_error",
            "norm",
            "theta",
            "all_data_error",
            "floor",
        ):
            np.testing.assert_allclose(
                inside[name], alone[name], rtol=1e-12, atol=1e-14
            )


def test_points_may_have_different_numbers_of_atoms():
    scenario = EVERY["C"][0].replace(inputs=gs.PowerLaw(0.3, 0.2), rate=3.0)
    both = gs.predict(scenario, what="steps", dim=[40, 60])
    for dim in (40, 60):
        alone = gs.predict(scenario, what="steps", dim=dim)
        np.testing.assert_array_equal(both.B.sel(dim=dim)[..., :dim], alone.B)
        np.testing.assert_array_equal(
            both.eigenvalue.sel(dim=dim)[:dim], alone.eigenvalue
        )
    assert np.isnan(both.B.sel(dim=40)[..., 40:]).all()


def test_low_effective_ranks_are_said():
    inputs = gs.PowerLaw(0.8, 0.5)
    scenario = EVERY["C"][0].replace(inputs=inputs)
    with pytest.warns(gs.GiantstepWarning, match=r"r_eff = 65.* and r_4 = 4"):
        result = gs.predict(scenario.replace(steps=0, rate=1.0))
    assert float(result.effective_rank_4) * 400 == pytest.approx(4, abs=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gs.predict(EVERY["C"][0])


def refused(make):
    with pytest.raises(gs.InputError) as caught:
        make()
    return str(caught.value)


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"precondition": "half"}, '"none", "whitened" or a number'),
        (
            {"inputs": gs.InputBlocks([1, 0], [0.5, 0.5], [1, 0]), "precondition": 1},
            "0 where an eigenvalue of inputs is",
        ),
        (
            {
                "target": "z1 + z2",
                "inputs": gs.InputBlocks([1, 2], [0.5, 0.5], [[1, 0]] * 3),
            },
            "Field `inputs.shares` must be one row, or 2 rows",
        ),
    ],
)
def test_bad_fields(fields, part):
    assert part in refused(lambda: EVERY["C"][0].replace(fields))


def test_planted_shifts_on_inputs_with_a_covariance():
    """They used to be refused: the limit beside 12 networks of d = 160, 4 standard
    errors and 2%.
    """
    scenario = EVERY["C"][0].replace(
        planted=gs.PlantedShifts([[1.2]], [0.8]), steps=0, rate=1.0
    )
    report = gs.agreement(
        gs.compare(scenario, dim=160, trials=12, seed=2, test_samples=4000)
    )
    assert report.passes(allow=0.02), str(report)


@np.errstate(all="ignore")
def test_a_step_that_cancels_the_weights_is_flagged():
    """|s_q| < 1e-6: one class whose bulk the step removes in all of the spectrum that
    there is.
    """
    scenario = network(
        "h2(z)",
        "1",
        gs.InputBlocks([1, 1], [0.5, 0.5], [1, 0]),
        ONE,
        [-0.5],
        (2, 1, 0.1, 0.1),
    )
    scenario = scenario.replace(loss_of_steps="correlation")
    result = gs.predict(scenario)
    assert not bool(result.converged) and "cancels the initial weights" in str(
        result.status.values
    )


def test_dimensions_without_room():
    scenario = EVERY["F"][0]
    assert "has room for the target" in refused(lambda: gs.predict(scenario, dim=30))
    given = scenario.replace(inputs=gs.InputCovariance([1, 2, 1], [1, 0, 0]))
    assert "3, the dimension of the given covariance" in refused(
        lambda: gs.predict(given, dim=50)
    )
    assert "3, the dimension of the given covariance" in refused(
        lambda: gs.simulate(given, dim=50, trials=1)
    )


def test_a_coarser_rule_is_still_right(monkeypatch):
    """What the flag of the quadrature compares with."""
    scenario = EVERY["C"][0]
    problem = problem_of(scenario)
    fine = layers_of(problem)[-1]
    monkeypatch.setattr(
        gradient, "views", lambda problem, layer: views(problem, layer, fineness=0.7)
    )
    np.testing.assert_allclose(layers_of(problem)[-1].means, fine.means, rtol=1e-9)


def test_the_refinement_that_matters_is_chosen():
    atoms = np.arange(1.0, 61.0)
    trailing = gs.InputBlocks(
        atoms**-0.8, np.full(60, 1 / 60), (atoms > 30).astype(float)
    )
    tanh = LOW_RANK["K"][0]
    relu = LOW_RANK["L"][0].replace(inputs=trailing)
    for scenario, chosen in ((tanh, "split"), (relu, "quadratic")):
        auto, named = (
            gs.predict(scenario, theory=theory, dim=60) for theory in ("auto", chosen)
        )
        assert auto.attrs["theory"] == chosen
        np.testing.assert_array_equal(auto.test_error, named.test_error)
    assert (
        gs.predict(SETTINGS["C"][0], theory="auto", dim=400).attrs["theory"] == "exact"
    )
    # the limit itself
    assert gs.predict(tanh, theory="auto").attrs["theory"] == "exact"


BATCH_ON_A_POWER_LAW = {
    "blocks that split": (
        {"activation": "relu", "target": "tanh(z)", "noise": 0.1},
        [0.43137216, 0.31965600],
    ),
    "nothing to learn": (
        {"activation": "relu", "target": "0*z", "noise": 0.0},
        [0.0, 0.0],
    ),
    "no mean slope": (
        {"activation": "abs(z)", "target": "tanh(z)", "noise": 0.1},
        None,
    ),
}


@pytest.mark.parametrize("name", BATCH_ON_A_POWER_LAW)
@pytest.mark.filterwarnings("ignore::giantstep.core.base.errors.GiantstepWarning")
def test_noise_that_neurons_share_is_one_direction_on_several_atoms(name):
    """Whatever its rank: three directions of sub-blocks, or none, once ended in an
    error of shapes.
    """
    fields, expected = BATCH_ON_A_POWER_LAW[name]
    inputs = gs.PowerLaw(exponent=0.5)
    step = gs.MaximalStep(rate=1.0, batch_per_dim=3.0)
    network = gs.Network(
        **fields, inputs=inputs, steps=[step], samples_per_dim=2.0, width_per_dim=1.0
    )
    result = gs.predict(
        network,
        **({"theory": "auto", "dim": 100} if name == "blocks that split" else {}),
    )
    if expected is None:
        assert not bool(result.converged) and str(result.status.values)
    else:
        np.testing.assert_allclose(result.test_error, expected, rtol=2e-8)
