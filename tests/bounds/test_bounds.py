"""No method of any family lies below the best possible error; what is lost in
samples.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.maths.gaussian import Target
from giantstep.problems.bayes_limit.limit import limit
from giantstep.problems.bayes_limit.scenario import BayesLimit
from giantstep.problems.bounds.counting import teacher_of
from giantstep.problems.bounds.curve import BRANCHES, BoundCurve, BoundProblem

pytestmark = pytest.mark.filterwarnings("ignore::giantstep.GiantstepWarning")

LINES = ["tanh(z)", "relu(z)", "sin(z)", "h2(z)", "z + 0.5*h2(z)", "abs(z)"]
ROUNDING = 1e-6
DIM = 500


def one_step(rng):
    step = [
        gs.NoStep(),
        gs.MaximalStep(
            rate=float(rng.uniform(0.5, 3)), batch_per_dim=float(rng.uniform(1, 6))
        ),
    ]
    return gs.OneStep(
        target=str(rng.choice(LINES)),
        activation=str(rng.choice(["erf", "tanh", "relu"])),
        noise=float(rng.uniform(0.05, 0.5)),
        width_per_dim=float(rng.uniform(0.3, 3)),
        samples_per_dim=float(rng.uniform(0.5, 6)),
        ridge=float(10 ** rng.uniform(-2, 0.5)),
        second_layer=gs.Vocabulary([1]),
        step=step[int(rng.integers(2))],
    )


def classify(rng):
    return gs.OneStep(
        target="sign(z)",
        loss=str(rng.choice(["logistic", "hinge"])),
        activation="erf",
        flip=float(rng.uniform(0, 0.2)),
        width_per_dim=1.0,
        samples_per_dim=float(rng.uniform(1, 4)),
        ridge=0.1,
        second_layer=gs.Vocabulary([1]),
        step=gs.NoStep(),
    )


def few_steps(rng):
    return gs.FewSteps(
        target=str(rng.choice(LINES[:5])),
        activation="erf",
        noise=float(rng.uniform(0.05, 0.5)),
        rate=float(rng.uniform(0.5, 2)),
        steps=int(rng.integers(3)),
        batch_per_dim=float(rng.uniform(2, 20)),
        width_per_dim=float(rng.uniform(0.5, 2)),
        samples_per_dim=float(rng.uniform(0.5, 6)),
        ridge=float(10 ** rng.uniform(-1.5, 0.5)),
    )


def network(rng):
    steps = [
        gs.MaximalStep(
            float(rng.uniform(0.5, 2)), batch_per_dim=float(rng.uniform(2, 20))
        )
        for _ in range(2)
    ]
    return gs.Network(
        target="sign(z)",
        flip=float(rng.uniform(0, 0.2)),
        activation="erf",
        steps=steps,
        width_per_dim=1.0,
        samples_per_dim=float(rng.uniform(0.5, 6)),
        readout=gs.Logistic(float(10 ** rng.uniform(-1, 0.5))),
    )


def batch_reuse(rng):
    return gs.BatchReuse(
        target=str(rng.choice(LINES[:5])),
        activation="erf",
        noise=float(rng.uniform(0.05, 0.3)),
        samples_per_dim=float(rng.uniform(0.5, 4)),
        rate=float(rng.uniform(0.1, 0.4)),
        steps=4,
        data=str(rng.choice(["reused", "fresh"])),
    )


def online_sgd(rng):
    return gs.OnlineSGD(
        target="tanh(z1)",
        activation="erf",
        noise=float(rng.uniform(0.05, 0.3)),
        rate=float(rng.uniform(0.3, 1.5)),
        dim=DIM,
        steps=4 * DIM,
        initial_overlap="random",
        second_layer=[1.0],
    )


def mixture_glm(rng):
    labels = str(rng.choice(["sign", "linear", "phase", "tanh(z)"]))
    if labels == "sign":
        loss = str(rng.choice(["logistic", "hinge", "square"]))
    else:
        loss = "square"
    return gs.MixtureGLM(
        labels=labels,
        loss=loss,
        noise=0.0 if labels == "sign" else float(rng.uniform(0.05, 0.5)),
        flip=float(rng.uniform(0, 0.2)) if labels == "sign" else 0.0,
        ridge=float(10 ** rng.uniform(-2, 0.5)),
        samples_per_dim=float(rng.uniform(0.5, 6)),
        intercept=labels == "phase",
    )


MAKERS = (one_step, classify, few_steps, network, batch_reuse, online_sgd, mixture_glm)


def distance(scenario, **settings):
    """Return (error - best possible error) at every time, which must not be
    negative.
    """
    result = gs.predict(scenario, **settings)
    teacher = teacher_of(scenario)
    gaps = []
    for observable in teacher.observables:
        values = result[observable.variable]
        if "time" in values.dims:
            values = values.isel(
                time=np.unique(np.linspace(0, values.sizes["time"] - 1, 6).astype(int))
            )
        errors = np.atleast_1d(values.values)
        if "time" in values.dims and len(teacher.batches):
            steps = values["time"].values
        else:
            steps = [None]
        alpha = np.array(
            [teacher.total(None if step is None else int(step)) for step in steps]
        )
        curve = BoundCurve(teacher.problem)
        best = np.array([curve.error(float(a), observable.name) for a in alpha])
        best = observable.from_best(best, teacher.problem.flip)
        best = np.broadcast_to(best, errors.shape)
        gaps.append((errors - best)[np.isfinite(errors)])
    return np.concatenate(gaps)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_nothing_lies_below_the_best_possible(make, seed):
    gaps = distance(make(np.random.default_rng([7, seed])))
    assert len(gaps) and gaps.min() > -ROUNDING


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_nothing_lies_below_the_best_possible_often(make, seed):
    gaps = distance(make(np.random.default_rng([8, seed])))
    assert len(gaps) and gaps.min() > -ROUNDING


def test_it_counts_fresh_batches_and_the_fit_once():
    fields = {
        "target": "tanh(z)",
        "noise": 0.1,
        "width_per_dim": 1.0,
        "samples_per_dim": 2.0,
        "ridge": 0.1,
    }
    stepped = gs.OneStep(**fields, step=gs.MaximalStep(rate=1.0, batch_per_dim=3.0))
    assert gs.best_possible(stepped) == BayesLimit(
        target="tanh(z)", noise=0.1, samples_per_dim=5.0
    )
    several = gs.FewSteps(**fields, rate=1.0, steps=2, batch_per_dim=4.0)
    assert gs.best_possible(several).samples_per_dim == 10.0
    own = {
        "target": "tanh(z)",
        "noise": 0.1,
        "width_per_dim": 1.0,
        "samples_per_dim": 2.0,
    }
    unlike = gs.Network(
        **own, steps=[gs.MaximalStep(1.0, 4.0), gs.MaximalStep(1.0, 7.0)]
    )
    assert gs.best_possible(unlike) == BayesLimit(
        target="tanh(z)", noise=0.1, samples_per_dim=13.0
    )
    assert [teacher_of(unlike).total(made) for made in (0, 1, 2)] == [2.0, 6.0, 13.0]
    classes = {
        "target": "sign(z1 + z2)",
        "noise": 0.0,
        "flip": 0.1,
        "readout": gs.Logistic(0.1),
        "steps": [],
    }
    assert gs.best_possible(unlike.replace(classes)) == BayesLimit(
        target="sign(z)", flip=0.1, samples_per_dim=2.0
    )
    again = gs.Network(**own, steps=[gs.SmallStep(1.0, 2.0)], fit_sample="same")
    assert gs.best_possible(again).samples_per_dim == 2.0
    reused = gs.BatchReuse(
        target="tanh(z)", noise=0.1, samples_per_dim=2.0, rate=0.1, steps=5
    )
    assert gs.best_possible(reused).samples_per_dim == 2.0
    assert gs.best_possible(reused.replace(data="fresh")).samples_per_dim == 10.0
    glm = gs.MixtureGLM(
        labels="linear",
        loss="square",
        ridge=0.1,
        samples_per_dim=2.0,
        teacher_norm=4.0,
        noise=0.25,
    )
    assert float(
        gs.predict(gs.best_possible(glm)).mse[2]
    ) == pytest.approx(  # z with noise 1/16, times four
        4
        * float(
            gs.predict(BayesLimit(target="z", noise=0.0625, samples_per_dim=2.0)).mse[2]
        ),
        abs=1e-8,
    )


def test_the_length_of_the_teacher_and_of_the_inputs_is_one_scale():
    fields = {
        "labels": "tanh(z)",
        "loss": "square",
        "ridge": 0.1,
        "samples_per_dim": 2.0,
        "noise": 0.1,
    }
    wide = gs.best_possible(gs.MixtureGLM(**fields, covariances=gs.Isotropic([4.0])))
    long = gs.best_possible(gs.MixtureGLM(**fields, teacher_norm=4.0))
    assert wide == long
    assert float(wide.target(np.array([[0.3]]))[0]) == pytest.approx(np.tanh(0.6))


def test_ridge_at_its_best_penalty_is_the_best_possible():
    s = gs.MixtureGLM(
        labels="linear", loss="square", noise=0.3, ridge=0.3, samples_per_dim=1.5
    )
    assert abs(distance(s)).max() < 1e-8
    assert float(gs.efficiency(gs.predict(s)).test_mse_ratio) == pytest.approx(
        1, abs=1e-8
    )


def test_efficiency_counts_the_batches_of_the_steps_made():
    s = gs.FewSteps(
        target="tanh(z)",
        activation="erf",
        noise=0.1,
        rate=1.0,
        steps=1,
        batch_per_dim=20.0,
        width_per_dim=1.0,
        samples_per_dim=3.0,
        ridge=0.3,
    )
    result = gs.predict(s)
    best = [
        gs.predict(BayesLimit(target="tanh(z)", noise=0.1, samples_per_dim=a)).mse[2]
        for a in (3.0, 23.0)
    ]
    assert (result.test_error.values > np.array(best, dtype=float)).all()
    ratio = gs.efficiency(result).test_error_ratio.values
    same = gs.predict(
        BayesLimit(target="tanh(z)", noise=0.1, samples_per_dim=23.0 / ratio[1])
    ).mse[2]
    assert float(same) == pytest.approx(float(result.test_error[1]), rel=1e-5)


def test_efficiency_is_infinite_where_no_samples_would_do():
    s = gs.MixtureGLM(
        labels="phase", loss="square", noise=0.1, ridge=1.0, samples_per_dim=2.0
    )
    assert np.isinf(gs.efficiency(gs.predict(s)).test_mse_ratio)


@pytest.mark.parametrize("batch", [1.0, 4.0])
def test_giant_steps_lie_above_the_best_possible(batch):
    s = gs.GiantSteps(
        target="tanh(z1)",
        activation="erf",
        noise=0.1,
        rate=1.0,
        batch_per_dim=batch,
        steps=2,
    )
    assert gs.best_possible(s).samples_per_dim == 2 * batch
    gaps = distance(s, what="errors")
    assert len(gaps) and gaps.min() > -ROUNDING


def test_efficiency_of_least_squares_on_labels():
    s = gs.MixtureGLM(labels="sign", loss="square", ridge=1.0, samples_per_dim=2.0)
    e = gs.efficiency(gs.predict(s, samples_per_dim=[1.0, 10.0]))
    assert (e.test_error_ratio > 1).all() and float(e.test_error_ratio[1]) > float(
        e.test_error_ratio[0]
    )
    assert "samples" in e.attrs["counted"]


def test_what_knows_the_target_is_refused():
    fields = {
        "target": "tanh(z)",
        "width_per_dim": 1.0,
        "samples_per_dim": 2.0,
        "ridge": 0.1,
    }
    for scenario, words in (
        (gs.OneStep(**fields, step=gs.PlantedSpike(strength=1.0)), "`step` .*planted"),
        (
            gs.FewSteps(**fields, steps=0, planted=gs.PlantedShifts([[1.0], [-1.0]])),
            "`planted` .*planted",
        ),
        (gs.OneStep(**fields, step=gs.MaximalStep(rate=1.0)), "infinitely many"),
        (
            gs.FewSteps(
                **fields,
                steps=1,
                batch_per_dim=2.0,
                inputs=gs.InputBlocks([1.5, 0.5], [0.5, 0.5], [0.5, 0.5]),
            ),
            "isotropic",
        ),
        (
            gs.SubspaceClustering(sparsity=0.3, snr=4.0, samples_per_dim=2.0),
            "no best possible",
        ),
        (
            gs.MixtureGLM(
                labels="logit", loss="logistic", ridge=1.0, samples_per_dim=2.0
            ),
            "labels",
        ),
    ):
        with pytest.raises(gs.InputError, match=words):
            gs.best_possible(scenario)
    with pytest.raises(gs.InputError, match="scenario"):
        gs.best_possible("abs(z)")


def bound_lines(figure, label="best possible"):
    return [
        line
        for line in figure.axes[0].get_lines()
        if line.get_label().startswith(label)
    ]


def entries(figure):
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


def test_a_plot_has_the_bound_below_the_curve():
    s = gs.MixtureGLM(labels="sign", loss="square", ridge=1.0, samples_per_dim=2.0)
    figure = gs.plot(
        gs.predict(s, samples_per_dim=[1.0, 2.0, 4.0]), "test_error", bound=True
    )
    (bound,) = bound_lines(figure)
    curve = next(
        line for line in figure.axes[0].get_lines() if len(line.get_xdata()) == 3
    )
    assert (
        np.interp(curve.get_xdata(), bound.get_xdata(), bound.get_ydata())
        < curve.get_ydata()
    ).all()
    assert entries(figure) == ["limit", "best possible; message passing reaches it"]
    with pytest.raises(gs.InputError, match="curves of test_error"):
        gs.plot(gs.predict(s, samples_per_dim=[1.0, 2.0]), "train_error", bound=True)


def test_every_curve_has_the_bound_of_its_own_scenario():
    """The bound of the scenario behind the grid (noise 0.3, n/d = 2) lies above the
    curve of noise 0.01.
    """
    s = gs.MixtureGLM(
        labels="linear", loss="square", noise=0.3, ridge=0.3, samples_per_dim=2.0
    )
    r = gs.predict(s, noise=[0.01, 0.3], samples_per_dim=[1.0, 2.0, 4.0])
    bounds = bound_lines(gs.plot(r, "test_mse", bound=True))
    colours = {line.get_color() for line in bounds}
    assert len(bounds) == len(colours) == 2
    for noise, line in zip((0.01, 0.3), bounds):
        best = gs.predict(
            BayesLimit(target="z", noise=noise, samples_per_dim=1.0),
            samples_per_dim=[1.0, 2.0, 4.0],
        )
        drawn = np.interp([1.0, 2.0, 4.0], line.get_xdata(), line.get_ydata())
        np.testing.assert_allclose(drawn, best.mse.sel(branch="bayes"), rtol=1e-9)
    # the best one has no ridge
    same = gs.predict(s, ridge=[0.1, 0.3], samples_per_dim=[1.0, 2.0, 4.0])
    assert len(bound_lines(gs.plot(same, "test_mse", bound=True))) == 1
    across = gs.predict(s, ridge=[0.1, 0.3, 1.0])
    level = bound_lines(gs.plot(across, "test_mse", bound=True))[0].get_ydata()
    assert np.ptp(level) == 0 and level[0] == pytest.approx(
        float(gs.predict(gs.best_possible(s)).mse[2]), rel=1e-9
    )


def test_all_samples_on_the_axis_make_methods_comparable(monkeypatch):
    """Against n/d of the fit the bound of a step stood at 0 where the batch of the step
    was what it had learnt from.
    """
    one = gs.OneStep(
        target="tanh(z)",
        noise=0.05,
        width_per_dim=1.5,
        samples_per_dim=2.0,
        ridge=0.1,
        step=gs.MaximalStep(2.0, batch_per_dim=1.0),
    )
    both = gs.predict(
        {"none": one.replace(step=gs.NoStep()), "one": one},
        samples_per_dim=[0.5, 1.0, 2.0],
    )
    (axes,) = gs.plot(both, "test_error", x="all samples", bound=True).axes
    assert (
        "all samples" in axes.get_xlabel()
        and "n_{\\mathrm{all}}/d" in axes.get_xlabel()
    )
    whole = {
        tuple(line.get_xdata()): line.get_ydata()
        for line in axes.lines
        if len(line.get_xdata()) == 3
    }
    np.testing.assert_array_equal(
        whole[0.5, 1.0, 2.0], both.test_error.sel(scenario="none")
    )
    np.testing.assert_array_equal(
        whole[1.5, 2.0, 3.0], both.test_error.sel(scenario="one")
    )
    bounds = [
        line
        for line in axes.lines
        if line.get_linestyle() == "--" and len(line.get_xdata()) > 3
    ]
    # two pieces of one curve
    assert len({line.get_color() for line in bounds}) == 1 and len(bounds) == 2
    for line in bounds:
        x = line.get_xdata()[5]
        y = line.get_ydata()[5]
        best = gs.predict(gs.best_possible(one), samples_per_dim=float(x)).mse.sel(
            branch="bayes"
        )
        assert y == pytest.approx(float(best), rel=1e-6)
    monkeypatch.setattr("giantstep.tools.figures.fine.SECONDS", 0.5)
    # the fine theory moves along
    compared = gs.compare(one, samples_per_dim=[0.5, 1.0, 2.0], dim=30, trials=2)
    (axes,) = gs.plot(compared, "test_error", x="all samples").axes
    fine = [line.get_xdata() for line in axes.lines if len(line.get_xdata()) > 10]
    assert fine and all(
        x[0] == pytest.approx(1.5) and x[-1] == pytest.approx(3.0) for x in fine
    )


def test_all_samples_need_something_along_which_they_grow():
    rates = gs.predict(gs.OneStep.example(), ridge=[0.1, 1.0], step__batch_per_dim=2.0)
    with pytest.raises(
        gs.InputError,
        match='x="all samples" needs a field of numbers, or time, along which',
    ):
        gs.plot(rates, x="all samples")
    with pytest.raises(gs.InputError, match="infinitely many samples"):
        gs.plot(
            gs.predict(gs.OneStep.example(), samples_per_dim=[1.0, 2.0]),
            x="all samples",
        )


def test_a_bound_against_time_stands_at_whole_steps_of_its_own_curve():
    s = gs.FewSteps(
        target="tanh(z)",
        activation="erf",
        noise=0.1,
        rate=1.0,
        steps=2,
        batch_per_dim=20.0,
        width_per_dim=1.0,
        samples_per_dim=3.0,
        ridge=0.3,
    )
    r = gs.predict(s, samples_per_dim=[1.0, 8.0])
    for fit, line in zip(
        (1.0, 8.0), bound_lines(gs.plot(r, "test_error", bound=True)), strict=True
    ):
        assert line.get_xdata().tolist() == [0, 1, 2]
        seen = [fit, fit + 20, fit + 40]
        best = gs.predict(
            BayesLimit(target="tanh(z)", noise=0.1, samples_per_dim=1.0),
            samples_per_dim=seen,
        )
        np.testing.assert_allclose(
            line.get_ydata(), best.mse.sel(branch="bayes"), rtol=1e-9
        )
    steps = bound_lines(gs.plot(r, "test_error", x="samples_per_dim", bound=True))
    assert (
        len(steps) == 3
        and len({round(float(line.get_ydata()[0]), 9) for line in steps}) == 3
    )


def test_panels_of_a_figure_have_their_own_bounds():
    s = gs.MixtureGLM(
        labels="linear", loss="square", noise=0.3, ridge=0.3, samples_per_dim=2.0
    )
    grid = {
        "samples_per_dim": [1.0, 2.0, 3.0, 4.0],
        "noise": [0.1, 0.5],
        "ridge": [0.1, 0.2, 0.3, 0.4, 0.5],
    }
    figure = gs.plot(gs.predict(s, grid), "test_mse", x="samples_per_dim", bound=True)
    levels = [
        [
            line.get_ydata()[0]
            for line in axes.get_lines()
            if line.get_label()[:4] == "best"
        ]
        for axes in figure.axes
    ]
    assert (
        len(figure.axes) == 2
        and [len(panel) for panel in levels] == [1, 1]
        and levels[0][0] < levels[1][0]
    )


def test_a_hard_phase_shows_message_passing_beside_the_best_possible():
    s = gs.OneStep(
        target="abs(z)",
        activation="relu",
        width_per_dim=1.5,
        samples_per_dim=2.0,
        ridge=0.1,
    )
    figure = gs.plot(
        gs.predict(s, samples_per_dim=[0.5, 1.1, 2.0]), "test_error", bound=True
    )
    assert entries(figure) == ["limit", "best possible", "message passing"]
    (best,), (amp,) = bound_lines(figure), bound_lines(figure, "message passing")
    assert (amp.get_ydata() >= best.get_ydata() - 1e-12).all() and (
        amp.get_ydata() > best.get_ydata() + 0.1
    ).any()


@pytest.mark.parametrize("branch", BRANCHES)
@pytest.mark.parametrize(
    ("target", "noise"), [("tanh(z)", 0.1), ("z", 0.5), ("h2(z)", 0.3)]
)
def test_needed_samples_invert_the_curve(target, noise, branch):
    curve = BoundCurve(BoundProblem(Target(target), noise, 0.0))
    own = np.linspace(2.0, 9.0, 6)
    truth = own / np.geomspace(1.0, 4.0, 6)
    errors = [curve.error(float(alpha), "mse", branch) for alpha in truth]
    needed = [curve.needed("mse", branch, error, n) for error, n in zip(errors, own)]
    np.testing.assert_allclose(needed, truth, rtol=1e-9)
    higher = [
        curve.needed("mse", branch, error + 1e-7, n) for error, n in zip(errors, own)
    ]
    slopes = [curve.steepness("mse", branch, alpha) for alpha in truth]
    np.testing.assert_allclose(
        np.log(truth / higher), 1e-7 * np.array(slopes), rtol=0.02
    )


def test_each_distinct_problem_is_computed_once(monkeypatch):
    """The best one knows no ridge and no width: curves that differ in them alone have
    one bound.
    """
    asked = []

    def counting(scenario, points, *args):
        asked.extend(points["samples_per_dim"].tolist())
        return limit(scenario, points, *args)

    monkeypatch.setattr("giantstep.problems.bounds.curve.limit", counting)
    s = gs.OneStep(
        target="sin(0.9*z)",
        noise=0.1,
        width_per_dim=1.5,
        samples_per_dim=2.0,
        ridge=0.1,
    )
    r = gs.predict(
        s, ridge=[0.1, 0.3, 1.0], width_per_dim=[1.0, 2.0], samples_per_dim=[1.0, 2.0]
    )
    gs.plot(r.isel(width_per_dim=0), "test_error", x="samples_per_dim", bound=True)
    assert len(asked) == len(set(asked)) > 20
