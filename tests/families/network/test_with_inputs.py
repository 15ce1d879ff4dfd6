"""OneStep on inputs with a covariance has the numbers of a FewSteps of one step."""

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.result.layers import judged_side
from giantstep.core.run.study import Study

from .inside import only_the_experiment_answers

BASE = gs.OneStep(
    activation="tanh(z + 0.7)",
    target="tanh(z) + 0.4*h2(z)",
    noise=0.05,
    width_per_dim=1.2,
    samples_per_dim=2.0,
    ridge=0.05,
    second_layer=gs.Vocabulary([1, -1], [0.6, 0.4]),
    step=gs.MaximalStep(2.5),
)
MIXED = gs.InputBlocks([2.5, 0.5], [0.25, 0.75], [0.3, 0.7])
ON_MIXED = BASE.replace(inputs=MIXED)
NAMES = ("test_error", "train_error", "norm")


@pytest.mark.parametrize("step", [gs.MaximalStep(2.5), gs.NoStep()])
def test_isotropic_inputs_give_the_numbers_of_one_step(step):
    scenario = BASE.replace(step=step)
    plain = gs.predict(scenario)
    last = gs.predict(scenario.network()).isel(time=-1)
    np.testing.assert_allclose(
        [last[name] for name in NAMES], [plain[name] for name in NAMES], rtol=1e-10
    )
    one_block = gs.predict(scenario.replace(inputs=gs.InputBlocks([1.0], [1.0], [1.0])))
    for name in (
        *NAMES,
        "objective",
        "theta",
        "Q2",
        "V2",
        "null_error",
        "affine_error",
        "effective_rank",
    ):
        np.testing.assert_allclose(
            one_block[name], plain[name], rtol=1e-10, atol=1e-14, err_msg=name
        )


def test_a_covariance_gives_the_printed_values():
    after = gs.predict(ON_MIXED)
    # structured_inputs section 12, setting D
    printed = [
        0.57234704,
        0.2455715,
        1.5705557,
    ]
    np.testing.assert_allclose(
        [after[name] for name in NAMES], printed, rtol=0, atol=1e-7
    )
    assert float(
        gs.predict(ON_MIXED.replace(precondition=0.5)).test_error
    ) == pytest.approx(0.48770776, abs=1e-8)
    assert after.effective_rank.item() == pytest.approx(
        1 / (0.25 * 2.5**2 + 0.75 * 0.5**2)
    )


@pytest.mark.parametrize("step", [gs.MaximalStep(2.5), gs.NoStep()])
@pytest.mark.parametrize("what", ["errors", "steps", "along", "spectrum", "resolvent"])
def test_every_question_has_the_last_time_of_few_steps(what, step):
    scenario = ON_MIXED.replace(step=step)
    settings = {
        "spectrum": {"x": [0.1, 0.5, 1.0]},
        "resolvent": {"z": [-1.0, 0.5 + 1j]},
    }.get(what, {})
    own = gs.predict(scenario, what=what, **settings)
    last = gs.predict(scenario.network(), what=what, **settings).isel(time=-1)
    assert bool(own.converged)
    for variable in scenario.questions[what].variables:
        if variable.name in own and variable.name != "affine_error":
            theirs = last[variable.name]
            theirs = theirs.isel(
                {dim: 0 for dim in theirs.dims if dim.startswith("direction")}
            )
            np.testing.assert_allclose(
                own[variable.name], theirs, rtol=1e-9, atol=1e-12, err_msg=variable.name
            )


def test_steps_of_isotropic_inputs():
    steps = gs.predict(BASE, what="steps")
    assert steps.U.dims == ("block",) and float(steps.gamma) == pytest.approx(1.0)
    assert steps.eigenvalue.values.tolist() == [1.0]
    np.testing.assert_allclose(steps.s, np.abs(steps.B[:, 0]), rtol=1e-12)


@pytest.mark.slow
def test_the_refinements_of_a_finite_dimension_are_those_of_few_steps():
    low = BASE.replace(
        inputs=gs.PowerLaw(0.9, 0.5, atoms=4), second_layer=gs.Vocabulary([1])
    )
    with pytest.warns(gs.GiantstepWarning, match="effective ranks"):
        auto = gs.predict(low, dim=60, theory="auto")
    with pytest.warns(gs.GiantstepWarning, match="effective ranks"):
        theirs = gs.predict(low.network(), dim=60, theory="auto")
    np.testing.assert_allclose(auto.test_error, theirs.test_error[-1], rtol=1e-10)
    assert auto.attrs["theory"] in ("split", "quadratic")
    np.testing.assert_array_equal(
        gs.predict(BASE, theory="auto").test_error, gs.predict(BASE).test_error
    )


def test_networks_agree():
    both = gs.compare(
        ON_MIXED.replace(inputs=gs.InputBlocks([1.6, 0.6], [0.4, 0.6], [0.5, 0.5])),
        dim=200,
        trials=6,
        samples_per_dim=[1.0, 3.0],
        ridge=0.5,
    )
    for name in NAMES:
        limit = judged_side(both[name])
        measured = both[name].sel(source="experiment")
        # 2% for the finite dimension
        error = 4 * both[f"{name}_stderr"].sel(source="experiment") + 0.02 * limit
        assert np.all(np.abs(measured - limit) < error), name


def test_a_scenario_without_inputs_is_known_by_the_content_it_had():
    assert not {"inputs", "precondition"} & set(BASE.content())
    assert (
        BASE.digest()
        == "ba95d10f200601a33c3be456fc81fa45cb184ea218e4b2731c6fb6ee81634a1e"
    )
    assert ON_MIXED.digest() != BASE.digest()


def test_files_bring_it_back():
    scenario = ON_MIXED.replace(precondition="whitened")
    study = Study.from_toml(Study(scenario).to_toml(comments=True))
    assert study.scenario == scenario and study.scenario.precondition == 1.0


def test_rows_of_a_table_are_inputs():
    table = np.random.default_rng(1).exponential(size=(900, 12)) * np.linspace(
        2, 0.5, 12
    )
    scenario = BASE.replace(inputs=table, step=gs.MaximalStep(2.0, batch_per_dim=20.0))
    assert isinstance(scenario.inputs, gs.InputRows) and scenario.own_dim() == 12
    assert bool(gs.simulate(scenario, trials=2).converged)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        (
            {
                "inputs": gs.InputBlocks([2.0, 0.0], [0.5, 0.5], [1, 0]),
                "precondition": 1.0,
            },
            "precondition",
        ),
        (
            {"inputs": gs.InputBlocks([2.0, 1.0], [0.5, 0.5], [[1, 0], [0, 1]])},
            "inputs.shares",
        ),
        ({"inputs": 3.0}, "inputs"),
    ],
)
def test_what_makes_no_sense_is_refused(fields, named):
    with pytest.raises(gs.InputError, match=f"Field `{named}`"):
        BASE.replace({"inputs": MIXED, **fields})


def test_small_steps_are_left_to_networks():
    scenario = ON_MIXED.replace(step=gs.SmallStep(1.0, batch_per_dim=2.0))
    only_the_experiment_answers(
        scenario,
        "step",
        "a theory of a SmallStep or a GrowingStep where inputs have a cov",
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"loss": "logistic", "target": "sign(z)", "noise": 0.0, "flip": 0.05},
        {"second_layer": "gaussian"},
    ],
    ids=["logistic", "Gaussian second layer"],
)
def test_what_used_to_be_refused_is_answered(fields):
    """16 networks of d = 150: 4 standard errors and 3%."""
    inputs = gs.InputBlocks([1.6, 0.6], [0.4, 0.6], [0.5, 0.5])
    scenario = BASE.replace(
        {"inputs": inputs, "ridge": 0.5, "step": gs.MaximalStep(1.5), **fields}
    )
    both = gs.compare(scenario, dim=150, trials=16, seed=8, test_samples=4000)
    assert bool(judged_side(both.converged))
    for name in ("test_error", "norm"):
        limit = float(judged_side(both[name]))
        seen = float(both[name].sel(source="experiment"))
        error = float(both[f"{name}_stderr"].sel(source="experiment"))
        assert abs(seen - limit) < 4 * error + 0.03 * limit, (name, limit, seen, error)


@pytest.mark.filterwarnings("ignore:Rare inputs")
def test_ridgeless_fits_are_the_limit_of_small_ridges():
    """Also in one grid with other ridges, below and above the interpolation threshold
    n = p.
    """
    found = gs.predict(
        ON_MIXED.replace(activation="relu"),
        samples_per_dim=[0.6, 3.0],
        ridge=[0.1, 1e-9, 0.0],
    )
    assert bool(found.converged.all())
    for name in NAMES:
        np.testing.assert_allclose(
            found[name].sel(ridge=0.0),
            found[name].sel(ridge=1e-9),
            rtol=1e-6,
            atol=1e-12,
        )


def test_eigenvalues_may_be_those_over_the_samples():
    """Phi^T Phi/n has p/n times the eigenvalues of Phi^T Phi/p."""
    x = np.array([0.1, 0.5, 1.0])
    per_width = gs.predict(ON_MIXED, what="spectrum", x=x)
    ratio = ON_MIXED.samples_per_dim / ON_MIXED.width_per_dim
    per_sample = gs.predict(ON_MIXED, what="spectrum", x=x / ratio, normalisation="n")
    np.testing.assert_allclose(per_sample.cdf, per_width.cdf, atol=1e-8)
    np.testing.assert_allclose(
        per_sample.upper_edge * ratio, per_width.upper_edge, rtol=1e-8
    )


def test_the_error_along_the_target_before_a_step_averages_to_the_test_error():
    scenario = ON_MIXED.replace(step=gs.NoStep())
    places = np.linspace(-8, 8, 1601)
    weights = np.exp(-(places**2) / 2)
    found = gs.predict(scenario, what="along", kappa=places)
    average = float(np.sum(weights * found.error_along.values) / weights.sum())
    assert average == pytest.approx(float(gs.predict(scenario).test_error), rel=1e-5)


@pytest.mark.parametrize(
    ("ask", "named"),
    [
        ({"what": "weights"}, "step"),
        ({"step__batch_per_dim": 3.0, "precondition": 1.0}, "step"),
        ({"theory": "split"}, "theory"),
    ],
)
def test_questions_without_an_answer_are_refused(ask, named):
    changes = {
        name: ask.pop(name) for name in ("step__kind", "precondition") if name in ask
    }
    with pytest.raises(gs.InputError, match=f"Field `{named}`"):
        gs.predict(ON_MIXED.replace(changes), **ask)


def test_theories_of_a_covariance_are_refused_without_one():
    with pytest.raises(gs.InputError, match="inputs are isotropic"):
        gs.predict(BASE, theory="quadratic", dim=100)
    with pytest.raises(gs.InputError, match="isotropic inputs"):
        gs.best_possible(ON_MIXED)


def test_nearly_a_thousand_nodes():
    """The rule of this rate has 947 nodes, which were once filled up to more than the
    thousand of another way.
    """
    fields = {
        "width_per_dim": 1.5,
        "samples_per_dim": 2.0,
        "ridge": 0.01,
        "step": gs.MaximalStep(7.15),
    }
    scenario = gs.OneStep(second_layer=gs.Vocabulary([1, -1], [0.9, 0.1]), **fields)
    several = gs.predict(scenario.network())
    np.testing.assert_allclose(
        several.test_error[-1], gs.predict(scenario).test_error, rtol=1e-8
    )


def test_a_kind_makes_inputs_where_there_were_none():
    made = BASE.replace(inputs__kind="power-law", inputs__exponent=0.4, inputs__atoms=5)
    assert made.inputs == gs.PowerLaw(0.4, atoms=5)
    with pytest.raises(gs.InputError, match=r"no field `inputs\.exponent`"):
        BASE.replace(inputs__exponent=0.4)
