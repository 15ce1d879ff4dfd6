"""The experiment: populations with the overlaps asked for, exact test errors, the
values of mixture_glm section 9.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import giantstep as gs
from giantstep.core.lab import Draws
from giantstep.core.readout.losses.fitting import ConvexFit
from giantstep.core.result.verdicts import normal_score
from giantstep.problems.mixture_glm.margins import fresh_errors, fresh_margins
from giantstep.problems.mixture_glm.population import populate
from giantstep.problems.mixture_glm.problem import MixtureProblem, State
from giantstep.problems.mixture_glm.samples import draw_labels, loss_of

from .cases import ROWS, SHIFT, WEIGHTED

# -- exact test errors -----------------------------------------------------------------

LAWS = {
    "sign": {"labels": "sign", "noise": 0.3},
    "sign, no noise": {"labels": "sign"},
    "sign, flips": {"labels": "sign", "flip": 0.15},
    "logit": {"labels": "logit"},
    "cluster": {"labels": "cluster", "cluster_labels": [-1], "flip": 0.1},
    "random": {"labels": "random"},
    "linear": {"labels": "linear", "noise": 0.2},
    "phase": {"labels": "phase", "noise": 0.1},
    "square": {"labels": "square"},
    "tanh": {"labels": "tanh(z)", "noise": 0.5},
}


def fresh(fields, tau, rho, mean, q, m):
    """Return a scenario of one cluster, its problem, and what its fresh samples see of
    weights.
    """
    fields = {"ridge": 0.1, "samples_per_dim": 2.0, "huber_threshold": 0.8, **fields}
    fields |= {} if fields["labels"] in ("cluster", "random") else {"teacher_norm": rho}
    s = gs.MixtureGLM(mean_gram=[[1.0]], **fields, teacher_means=[tau])
    problem = MixtureProblem.of(
        s, {name: np.array([value]) for name, (value, _) in s.numeric_fields().items()}
    )
    return (
        s,
        problem,
        State(*np.array([[[1.0]], [[q]], [[m]], [[mean]]]), b=np.zeros(1)),
    )


@pytest.mark.parametrize("name", LAWS)
def test_test_errors_are_those_of_a_large_sample(name):
    count = 400_000
    tau = 0.3
    rho = 1.4
    mean = -0.2
    q = 2.0
    m = 0.9
    numbers = (tau, rho, mean, q, m)
    rng = np.random.default_rng(7)
    nu, w = rng.multivariate_normal([tau, mean], [[rho, m], [m, q]], count).T
    law, problem, state = fresh(LAWS[name], *numbers)
    y = draw_labels(law, nu, np.zeros(count, dtype=int), Draws(3, "labels", 0))
    error, squared, _ = fresh_errors(problem, state)
    samples = {
        "squared": ((y - w) ** 2, squared.item()),
        "error": (1.0 * (y * w < 0) if law.binary else (y - w) ** 2, error.item()),
    }
    for loss in ("square", "huber", *(("logistic", "hinge") if law.binary else ())):
        _, other, state = fresh({**LAWS[name], "loss": loss}, *numbers)
        samples[loss] = (loss_of(loss, 0.8)(y, w), fresh_errors(other, state)[2].item())
    x = np.array([-2.0, -0.3, 0.0, 0.4, 1.0, 3.0])
    margins = y * w if law.binary else y - w
    for at, below in zip(x, fresh_margins(problem, state, np.ones(1), x)[0]):
        samples[f"cdf {at}"] = (1.0 * (margins <= at), below)
    for what, (values, exact) in samples.items():
        error = values.std() / np.sqrt(count)
        assert abs(values.mean() - exact) < 4.5 * error + 1e-12, (
            what,
            values.mean(),
            exact,
            error,
        )


def test_test_errors_in_closed_form():
    aligned, _, _ = fresh_errors(
        *fresh({"labels": "sign", "noise": 0.4}, 0.0, 1.0, 0.0, 2.5, 1.1)[1:]
    )
    np.testing.assert_allclose(
        aligned.item(), np.arccos(1.1 / np.sqrt(1.4 * 2.5)) / np.pi, rtol=1e-10
    )
    perfect, _, _ = fresh_errors(
        *fresh({"labels": "sign"}, 0.0, 1.0, 0.0, 4.0, 2.0)[1:]
    )
    np.testing.assert_allclose(perfect.item(), 0.0, atol=1e-9)
    one = {"labels": "cluster", "cluster_labels": [1]}
    cluster, _, _ = fresh_errors(*fresh(one, 0.0, 1.0, 0.7, 2.0, 0.0)[1:])
    np.testing.assert_allclose(
        cluster.item(), stats.norm.cdf(-0.7 / np.sqrt(2)), rtol=1e-10
    )
    linear = {"labels": "linear", "noise": 0.2, "loss": "huber", "huber_threshold": 1e3}
    _, squared, loss = fresh_errors(*fresh(linear, 0.4, 1.3, 0.1, 0.9, 0.6)[1:])
    np.testing.assert_allclose(
        squared.item(), 0.2 + 0.3**2 + 1.3 + 0.9 - 1.2, rtol=1e-12
    )
    np.testing.assert_allclose(loss.item(), 0.5 * squared.item(), rtol=1e-10)
    nothing, _, _ = fresh_errors(
        *fresh({"labels": "sign"}, 0.5, 1.0, 0.3, 1e-40, 0.0)[1:]
    )
    np.testing.assert_allclose(nothing.item(), stats.norm.cdf(-0.5), rtol=1e-12)


# -- populations -----------------------------------------------------------------------

GRAM = [[1.5, 0.3], [0.3, 0.8]]


def two(covariances, **fields):
    fields = {
        "weights": [0.3, 0.7],
        "labels": "sign",
        "ridge": 0.1,
        "samples_per_dim": 2.0,
        **fields,
    }
    return gs.MixtureGLM(covariances=covariances, **fields)


def wishart(d, seed):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((d, 2 * d)) / np.sqrt(2 * d)
    return root @ root.T


def test_vectors_have_the_overlaps_asked_for():
    dim = 60
    draws = Draws(0, "p", 0)
    plain = {"mean_gram": GRAM, "teacher_means": [0.7, -0.4], "teacher_norm": 1.7}
    for parts in (
        gs.Isotropic([0.6, 1.4]),
        gs.Blocks([0.5, 0.5], [[1.0, 0.5], [2.0, 0.1]]),
        gs.Dense([wishart(dim, 0), wishart(dim, 1)]),
    ):
        one = populate(two(parts, **plain), dim, draws)
        np.testing.assert_allclose(one.means @ one.means.T, GRAM, atol=1e-12)
        np.testing.assert_allclose(
            one.means @ one.teacher / np.sqrt(dim), [0.7, -0.4], atol=1e-12
        )
        np.testing.assert_allclose(one.teacher @ one.teacher / dim, 1.7, atol=1e-12)
        np.testing.assert_allclose(one.tau, [0.7, -0.4], atol=1e-12)
        for c, matrix in enumerate(one.dense()):
            np.testing.assert_allclose(one.cross[c], matrix @ one.teacher, atol=1e-10)
            np.testing.assert_allclose(
                one.rho[c], one.teacher @ matrix @ one.teacher / dim, atol=1e-10
            )


def test_given_vectors_are_kept():
    dim = 40
    rng = np.random.default_rng(0)
    theta = rng.standard_normal(dim)
    means = rng.standard_normal((2, dim)) / np.sqrt(dim)
    matrices = [wishart(dim, 0), wishart(dim, 1)]
    one = populate(
        two(gs.Dense(matrices, means=means, teacher=theta)), dim, Draws(0, "p", 0)
    )
    np.testing.assert_allclose(one.means, means)
    np.testing.assert_allclose(one.teacher, theta)
    one = populate(two(gs.Dense(matrices, means=means)), dim, Draws(0, "p", 0))
    np.testing.assert_allclose(one.means, means)
    np.testing.assert_allclose(one.means @ one.teacher, 0.0, atol=1e-10)


def test_blocks_have_their_shares():
    blocks = gs.Blocks([0.25, 0.75], [[2.0, 0.3]], teacher=[2.8, 0.4])
    scenario = gs.MixtureGLM(
        covariances=blocks, labels="sign", ridge=0.1, samples_per_dim=1.0
    )
    one = populate(scenario, 80, Draws(0, "p", 0))
    assert (one.covariances == 2.0).sum() == 20
    np.testing.assert_allclose(np.mean(one.teacher[:20] ** 2), 2.8)
    np.testing.assert_allclose(np.mean(one.teacher[20:] ** 2), 0.4)


def test_one_fixed_vector_in_each_block():
    f = np.array([0.7, 1.2, -0.3, 0.5])
    blocks = gs.Blocks(
        [0.5, 0.5],
        [[1, 1], [1, 1]],
        moments=[np.outer(f, f), 0 * np.outer(f, f)],
        teacher_variance=[1, 1],
        law="fixed",
    )
    one = populate(two(blocks), 40, Draws(0, "p", 0))
    np.testing.assert_allclose(np.abs(one.cross[0][:20]), 0.7)
    np.testing.assert_allclose(np.abs(one.means[0][:20]) * np.sqrt(40), 0.3)
    assert not one.cross[:, 20:].any()


@pytest.mark.parametrize(
    "kind", ["isotropic", "blocks", "dense", "spiked", "covariate"]
)
def test_samples_have_the_moments_of_their_cluster(kind):
    dim = 12
    count = 60_000
    fields = {"mean_gram": GRAM, "teacher_means": [0.7, -0.4]}
    if kind == "spiked":
        parts = gs.Spiked(
            [3.0],
            teacher_alignment=[0.5],
            mean_alignment=[0.2],
            weights=[0.5, 0.5],
            values=[1.0, 0.4],
        )
        scenario = gs.MixtureGLM(
            covariances=parts,
            mean_gram=[[0.6]],
            teacher_means=[0.3],
            ridge=0.1,
            samples_per_dim=1.0,
        )
    elif kind == "covariate":
        cross = np.random.default_rng(2).standard_normal((2, dim)) * 0.3
        scenario = two(
            gs.Dense(
                [wishart(dim, 0), wishart(dim, 1)],
                cross=cross,
                teacher_variance=[1.5, 2.0],
            )
        )
    else:
        parts = {
            "isotropic": gs.Isotropic([0.6, 1.4]),
            "blocks": gs.Blocks([0.5, 0.5], [[1.0, 0.5], [2.0, 0.1]]),
            "dense": gs.Dense([wishart(dim, 0), wishart(dim, 1)]),
        }[kind]
        scenario = two(parts, **fields)
    draws = Draws(1, kind, 0)
    one = populate(scenario, dim, draws)
    inputs, clusters, nu = one.sample(count, draws)
    np.testing.assert_allclose(np.bincount(clusters) / count, scenario.p, atol=0.01)
    for c, matrix in enumerate(one.dense()):
        own = inputs[clusters == c]
        field = nu[clusters == c]
        size = 6 * np.sqrt(
            np.diag(matrix).max()
            * max(one.rho[c], np.diag(matrix).max(), 1.0)
            / len(own)
        )
        np.testing.assert_allclose(own.mean(axis=0), one.means[c], atol=size)
        np.testing.assert_allclose(np.cov(own.T), matrix, atol=1.5 * size)
        np.testing.assert_allclose(field.mean(), one.tau[c], atol=size)
        np.testing.assert_allclose(field.var(), one.rho[c], atol=2.5 * size)
        cross = (field - field.mean()) @ (own - own.mean(axis=0)) / len(own)
        np.testing.assert_allclose(
            np.sqrt(dim) * cross, one.cross[c], atol=2 * np.sqrt(dim) * size
        )


def test_the_two_single_gaussians_have_the_moments_of_the_mixture():
    dim = 10
    count = 100_000
    draws = Draws(2, "g", 0)
    mixture = populate(
        two(gs.Isotropic([0.6, 1.4]), mean_gram=GRAM, teacher_means=[0.7, -0.4]),
        dim,
        draws,
    )
    inputs, _, nu = mixture.sample(count, draws)
    matched = mixture.matched()
    np.testing.assert_allclose(inputs.mean(axis=0), matched.means[0], atol=0.03)
    np.testing.assert_allclose(np.cov(inputs.T), matched.dense()[0], atol=0.05)
    np.testing.assert_allclose(nu.var(), matched.rho[0], atol=0.04)
    np.testing.assert_allclose(nu.mean(), matched.tau[0], atol=0.03)
    again, _, field = matched.sample(count, draws, "matched ")
    np.testing.assert_allclose(np.cov(again.T), matched.dense()[0], atol=0.05)
    np.testing.assert_allclose(field.var(), matched.rho[0], atol=0.04)
    within = mixture.within()
    assert not within.means.any()
    np.testing.assert_allclose(within.dense()[0], 1.16 * np.eye(dim), atol=1e-12)


# -- the experiment as a whole ---------------------------------------------------------


def test_a_smaller_sample_is_the_start_of_a_larger_one():
    scenario = ROWS["C3"][0]
    alone = gs.simulate(scenario, dim=40, trials=2, samples_per_dim=1.0)
    both = gs.simulate(
        scenario, dim=40, trials=2, samples_per_dim=[1.0, 40.0], ridge=[0.3, 1.0]
    )
    np.testing.assert_allclose(
        both["train_loss"].values[0, 0], alone["train_loss"].values, rtol=1e-12
    )


def test_what_is_not_solved_is_said(monkeypatch):
    from giantstep.problems.mixture_glm import samples

    def early(rows, labels, loss, **settings):
        return ConvexFit(np.zeros(rows.shape[1]), 0.0, 1e-3)

    monkeypatch.setattr(samples, "fit", early)
    with pytest.warns(gs.GiantstepWarning, match="not optimal"):
        result = gs.simulate(ROWS["A3"][0], dim=30, trials=2)
    assert not bool(result["converged"])
    assert "relative gap 0.001" in str(result["status"].values)
    assert np.isnan(result["test_error"].values)


def test_one_point_that_fails_leaves_the_others():
    scenario = gs.MixtureGLM(labels="random", loss="maxmargin", samples_per_dim=1.0)
    with pytest.warns(gs.GiantstepWarning):
        result = gs.simulate(scenario, dim=30, trials=2, samples_per_dim=[0.5, 1.999])
    assert result["converged"].values.tolist()[0] is True


def test_dense_covariances_fix_the_dimension():
    scenario = two(gs.Dense([wishart(20, 0), wishart(20, 1)]))
    assert float(gs.simulate(scenario, trials=2)["test_error"]) > 0
    with pytest.raises(gs.InputError, match="`dim` must be 20"):
        gs.simulate(scenario, dim=30, trials=2)


def test_both_penalties_with_the_hinge_are_refused():
    scenario = gs.MixtureGLM(
        labels="sign", loss="hinge", l1=0.1, ridge=0.2, samples_per_dim=2.0
    )
    with pytest.raises(
        gs.InputError, match="`ridge` must be 0 in an experiment with the hinge loss"
    ):
        gs.simulate(scenario, dim=20, trials=2)


def first(result, name, place=0):
    return float(np.ravel(result[name].values)[place])


def scores(scenario, values, dim, trials, place=0, seed=0):
    """Yield (variable, relative gap, relative standard error, normal score)."""
    result = gs.simulate(scenario, dim=dim, trials=trials, seed=seed, progress=False)
    assert bool(result["converged"]), str(result["status"].values)
    assert float(result["suboptimality"]) < 1e-8
    for name, value in values.items():
        mean = first(result, name, place)
        error = first(result, name + "_stderr", place)
        yield (
            name,
            (mean - value) / max(abs(value), 0.05),
            error / max(abs(value), 0.05),
            (mean - value) / error,
        )


SHARP = {
    "A2": ("test_error", 160),
    "A3": ("test_error", 80),
    "A5": ("test_error", 60),
    "A6": ("test_error", 120),
    "A7": ("test_error", 80),
    "A9": ("test_error", 60),
    "B2": ("m", 100),
    "C1": ("train_loss", 60),
    "C3": ("test_error", 60),
    "C4": ("test_error", 80),
    "D2": ("test_error", 120),
    "D3": ("train_loss", 160),
    "E1": ("test_error", 60),
}
"""Row -> the variable in which an error of 3% would be seen, and the trials that
takes.
"""


@pytest.mark.parametrize("row", SHARP)
def test_rows_of_the_reference_table(row):
    """An error of 3% would be seen: 3 standard errors and the finite-size term of 1/d
    together are less.
    """
    (scenario, values), (sharp, trials), dim = ROWS[row], SHARP[row], 150
    for name, gap, error, z in scores(scenario, values, dim, trials):
        if name == sharp:
            assert abs(gap) < 3 * error + 1 / dim < 0.03, (row, name, gap, error, z)
        assert abs(gap) < 4 * error + 4 / dim, (row, name, gap, error, z)


def test_a_covariate_shift():
    scenario, values = SHIFT
    for name, gap, error, z in scores(
        scenario, {"test_error": values["test_error"]}, 150, 60
    ):
        assert abs(gap) < 4 * error + 2.0 / 150 < 0.04, (name, gap, error, z)
    for name, gap, error, z in scores(
        scenario, {k: values[k] for k in ("q", "m")}, 150, 60, place=2
    ):
        assert abs(gap) < 4 * error + 4.0 / 150, (name, gap, error, z)


def test_clusters_that_count_differently():
    scenario, values = WEIGHTED
    for name, gap, error, z in scores(scenario, values, 150, 60):
        assert abs(gap) < 4 * error + 3.0 / 150, (name, gap, error, z)


# -- beside the limit ------------------------------------------------------------------


def spread_matrices(dim):
    """Return two covariances that do not commute."""
    return [wishart(dim, 0), 0.5 * wishart(dim, 1) + 0.5 * np.eye(dim)]


def beside():
    """Yield (name, scenario, question, dimension, trials) for every representation,
    question and kind of label.
    """
    rng = np.random.default_rng(5)
    dim = 100
    theta = rng.standard_normal(dim)
    means = 0.1 * rng.standard_normal((2, dim))
    plain = {"mean_gram": GRAM, "teacher_means": [0.5, -0.3], "loss": "logistic"}
    yield (
        "dense, random directions",
        two(gs.Dense(spread_matrices(dim)), **plain),
        "errors",
        dim,
        24,
    )
    given = gs.Dense(spread_matrices(dim), means=means, teacher=theta)
    yield "dense, given vectors", two(given, loss="hinge"), "errors", dim, 24
    cross = [0.6 * matrix @ theta for matrix in spread_matrices(dim)]
    covariate = gs.Dense(spread_matrices(dim), cross=cross, teacher_variance=[1.5, 1.5])
    yield (
        "Gaussian covariate model",
        two(covariate, labels="linear", noise=0.1),
        "errors",
        dim,
        24,
    )
    spiked = gs.Spiked(
        [4.0],
        teacher_alignment=[0.6],
        mean_alignment=[0.3],
        weights=[0.5, 0.5],
        values=[1.5, 0.5],
    )
    one = {
        "covariances": spiked,
        "mean_gram": [[0.5]],
        "teacher_means": [0.4],
        "samples_per_dim": 2.0,
    }
    yield (
        "spiked",
        gs.MixtureGLM(**one, labels="sign", loss="logistic", ridge=0.2),
        "errors",
        200,
        24,
    )
    moments = np.array(
        [
            [1.0, 0.3, 0.2, 0.0],
            [0.3, 1.2, 0.0, 0.1],
            [0.2, 0.0, 0.8, -0.2],
            [0.0, 0.1, -0.2, 0.6],
        ]
    )
    blocks = gs.Blocks(
        [0.5, 0.5],
        [[1, 0.5], [0.5, 2]],
        moments=[moments, 0.4 * moments],
        teacher_variance=[3.0, 3.0],
    )
    yield "second moments", two(blocks, labels="linear"), "errors", 200, 24
    yield (
        "expression",
        two([0.6, 1.4], **{**plain, "labels": "tanh(2*z) + z", "loss": "huber"}),
        "errors",
        150,
        24,
    )
    yield (
        "square labels",
        two([0.6, 1.4], **{**plain, "labels": "square", "loss": "square"}),
        "errors",
        150,
        24,
    )
    cluster = {"mean_gram": [[1, -1], [-1, 1]], "labels": "cluster", "flip": 0.05}
    yield (
        "cluster labels",
        two([0.6, 1.4], **cluster, loss="square", intercept=True),
        "errors",
        150,
        24,
    )
    margin = {
        "mean_gram": GRAM,
        "teacher_means": [0.5, -0.3],
        "ridge": 0.0,
        "samples_per_dim": 0.8,
    }
    yield (
        "largest margin, intercept",
        two([1, 1], **margin, loss="maxmargin", intercept=True),
        "errors",
        200,
        24,
    )
    yield (
        "hinge, margins",
        two([0.6, 1.4], **{**plain, "loss": "hinge"}),
        "margins",
        150,
        24,
    )
    yield (
        "largest margin, margins",
        two([1, 1], **margin, loss="maxmargin"),
        "margins",
        200,
        24,
    )
    yield (
        "square, residuals",
        two([0.6, 1.4], **{**plain, "labels": "phase", "loss": "square"}),
        "margins",
        150,
        24,
    )
    yield "universality", two([0.6, 1.4], **plain), "universality", 150, 24
    yield (
        "thresholds",
        two([1, 1], **{**plain, "samples_per_dim": 1.5}),
        "thresholds",
        200,
        24,
    )


BESIDE = list(beside())


@pytest.mark.parametrize(
    ("name", "scenario", "what", "dim", "trials"),
    BESIDE,
    ids=[row[0] for row in BESIDE],
)
def test_both_engines_agree(name, scenario, what, dim, trials):
    """Every number is within chance (once in 1,000) or within a finite-size term of 4/d
    of the limit.
    """
    result = gs.compare(scenario, what=what, dim=dim, trials=trials, seed=2)
    assert bool(result["converged"].all()), result["status"].values
    report = gs.agreement(result)
    assert report.passes(4 / dim), str(report)
    assert any(row.points for row in report.rows)


def test_a_wrong_number_would_be_seen():
    """The published slip q_hat <-> V_hat is far off; here 3% on the test error and 10%
    on q are enough.
    """
    scenario, values = ROWS["A3"]
    result = gs.simulate(scenario, dim=150, trials=80)
    for name, off in (("test_error", 1.03), ("q", 1.05)):
        gap = first(result, name) - off * values[name]
        assert abs(gap) > 3 * first(result, name + "_stderr") + values[name] / 150, name


def test_draws_stop_being_separable_at_the_threshold():
    """Random labels: alpha_c = 2 (Cover); at d = 120 the fraction of separable draws
    falls from 1 to 0 around it.
    """
    scenario = gs.MixtureGLM(
        labels="random", loss="logistic", ridge=0.1, samples_per_dim=1.0
    )
    result = gs.compare(
        scenario, what="thresholds", samples_per_dim=[1.5, 2.0, 2.5], dim=120, trials=30
    )
    np.testing.assert_allclose(
        result["alpha_c"].sel(source="limit").values, 2.0, rtol=1e-6
    )
    fraction = result["separable"].sel(source="experiment").values
    assert fraction[0] == 1
    assert 0.2 < fraction[1] < 0.8
    assert fraction[2] == 0


def test_the_failure_of_cross_validation():
    """With clusters of unequal covariance GCV is 19% too low, on both sides
    (mixture_glm section 14).
    """
    scenario = gs.MixtureGLM(
        weights=[0.5, 0.5],
        covariances=[0.2, 1.8],
        labels="linear",
        noise=0.1,
        ridge=0.1,
        samples_per_dim=2.0,
    )
    result = gs.compare(scenario, dim=200, trials=40)
    limit = result.sel(source="limit")
    np.testing.assert_allclose(
        [limit["gcv"], limit["test_mse"]], [0.1784583, 0.2207100], atol=1e-6
    )
    measured = result.sel(source="experiment")
    np.testing.assert_allclose(float(measured["gcv"]), 0.1784583, rtol=0.05)
    assert float(measured["gcv"]) < 0.9 * float(measured["test_mse"])


@pytest.mark.slow
@pytest.mark.parametrize("row", ["A3", "B1", "C3", "E1"])
def test_one_percent_would_be_seen(row):
    """At d = 400 with 250 trials 3 standard errors and the finite-size term 1/d are
    less than 1% of the test error.
    """
    scenario, values = ROWS[row]
    for name, gap, error, z in scores(
        scenario, {"test_error": values["test_error"]}, 400, 250, seed=2
    ):
        assert abs(gap) < 3 * error + 1 / 400 < 0.01, (row, name, gap, error, z)


@pytest.mark.slow
def test_z_scores_of_the_whole_table():
    """All rows at d = 400 with 32 trials, as in mixture_glm section 9: scores of mean
    near 0 and deviation near 1.
    """
    found = []
    for row, (scenario, values) in ROWS.items():
        for name, _, _, t in scores(scenario, values, 400, 32, seed=1):
            found.append((row, name, float(normal_score(t, 31))))
    z = np.array([score for _, _, score in found])
    table = "\n".join(f"{row} {name} {score:+.2f}" for row, name, score in found)
    print(
        f"{len(z)} scores, mean {z.mean():.2f}, deviation {z.std():.2f}, largest"
        f" {np.abs(z).max():.2f}\n{table}"
    )
    assert len(z) >= 70
    assert abs(z.mean()) < 0.5, table
    assert 0.7 < z.std() < 1.35, table
    assert np.abs(z).max() < 4.0, table


@pytest.mark.slow
def test_the_finite_size_term_of_a_training_loss():
    """Row C4: -0.035(4)/d, found with a solver of its own in 80,000 trials at d = 50 to
    400; far below 1% at d = 400.

    At d = 50, where it is 0.6%, an error of 1.5% more would be seen.
    """
    (scenario, values), dim = ROWS["C4"], 50
    ((_, gap, error, z),) = scores(
        scenario, {"train_loss": values["train_loss"]}, dim, 3000, seed=11
    )
    term = -0.035 / dim / values["train_loss"]
    assert abs(gap - term) < 3.5 * error < 0.015, (gap, term, error, z)
