"""One network has one answer: presets beside the network they stand for, their
contents, and their experiments.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.lab import Draws

pytestmark = pytest.mark.filterwarnings(
    "ignore::giantstep.core.base.errors.GiantstepWarning"
)

ONE, SIGNS, UNEVEN = (
    gs.Vocabulary([1]),
    gs.Vocabulary([1, -1]),
    gs.Vocabulary([1, -0.5], [0.7, 0.3]),
)
IDENTITY = gs.InputBlocks([1], [1], [1])
EQUAL = gs.InputBlocks([1, 1], [0.4, 0.6], [0.3, 0.7])
SIZES = {"width_per_dim": 1.2, "samples_per_dim": 1.7, "noise": 0.02}
ALIKE = (
    "test_error",
    "train_error",
    "objective",
    "norm",
    "test_misclassified",
    "null_error",
    "affine_error",
)
DIMS = (31, 100, 400, gs.inf)


def one_step(rate=2.0, ridge=0.1, **fields):
    return gs.OneStep(
        **{**SIZES, "step": gs.MaximalStep(rate), "ridge": ridge, **fields}
    )


def few_steps(rate=2.0, ridge=0.1, **fields):
    return gs.FewSteps(**{**SIZES, "steps": 1, "rate": rate, "ridge": ridge, **fields})


def network(*steps, ridge=0.1, readout=None, **fields):
    return gs.Network(
        **{**SIZES, "steps": steps, "readout": readout or gs.Ridge(ridge), **fields}
    )


def every_way(rate, ridge, **fields):
    """Return one step on the population, said in all ways there are."""
    step = gs.MaximalStep(rate)
    return {
        "OneStep": one_step(rate, ridge, **fields),
        "named identity": one_step(rate, ridge, inputs=IDENTITY, **fields),
        "equal blocks": one_step(rate, ridge, inputs=EQUAL, **fields),
        "FewSteps": few_steps(rate, ridge, **fields),
        "Network": network(step, ridge=ridge, **fields),
        "a step of rate 0 before": network(
            gs.MaximalStep(0.0), step, ridge=ridge, **fields
        ),
        "identity of a Network": network(step, ridge=ridge, inputs=IDENTITY, **fields),
        "network": one_step(rate, ridge, **fields).network(),
    }


def after(scenario, **asked):
    """Return the answer after the last step."""
    found = gs.predict(scenario, **asked)
    assert bool(found.converged.all()), found.status.values
    return found.isel(time=-1) if "time" in found.dims else found


def agree(scenarios, names=ALIKE, rtol=1e-10, dims=DIMS):
    """Hold that scenarios have the same numbers at every dimension."""
    answers = {
        name: after(scenario, dim=list(dims)) for name, scenario in scenarios.items()
    }
    (_, first), *others = answers.items()
    for way, other in others:
        for name in names:
            if name in first and name in other:
                np.testing.assert_allclose(
                    other[name],
                    first[name],
                    rtol=rtol,
                    atol=1e-14,
                    err_msg=f"{way}: {name}",
                )


@pytest.mark.parametrize("ridge", [0.1, 0.0])
@pytest.mark.parametrize(
    ("activation", "target", "second_layer", "rate"),
    [
        ("tanh", "sin(z)", ONE, 3.0),
        ("relu", "tanh(z)", SIGNS, 2.0),
        ("erf", "z + 0.3*h3(z)", UNEVEN, 2.0),
        ("softplus", "z + 0.5*h2(z)", UNEVEN, 1.0),
        ("relu", "sign(z)", ONE, 1.0),
    ],
    ids=lambda value: str(value)[:8],
)
def test_one_step_said_in_every_way(activation, target, second_layer, rate, ridge):
    """Limits at four dimensions; finite ones once differed by 12%. Ridge 0 is the
    ridgeless fit.
    """
    fields = {"activation": activation, "target": target, "second_layer": second_layer}
    ways = every_way(rate, ridge, **fields)
    agree(ways, dims=DIMS if ridge else DIMS[1:])
    theta = [
        after(ways[name], dim=100).theta for name in ("OneStep", "FewSteps", "Network")
    ]
    np.testing.assert_allclose(theta[1:], [theta[0]] * 2, rtol=1e-9)


def test_no_step_said_in_every_way():
    fields = {"activation": "relu", "target": "tanh(z)", "second_layer": UNEVEN}
    agree(
        {
            "OneStep": one_step(**fields).replace(step=gs.NoStep()),
            "named identity": (
                one_step(inputs=IDENTITY, **fields).replace(step=gs.NoStep())
            ),
            "FewSteps": few_steps(**fields).replace(steps=0),
            "Network": network(**fields),
            "a step that does nothing": network(gs.NoStep(), **fields),
            "rate 0": network(gs.MaximalStep(0.0), **fields),
        }
    )


@pytest.mark.parametrize("kind", ["logistic", "hinge"])
def test_classes(kind):
    fields = {
        "activation": "relu",
        "target": "sign(z)",
        "noise": 0.0,
        "flip": 0.05,
        "second_layer": SIGNS,
    }
    turned = {**fields, "target": "sign(0.6*z1 + 0.8*z2)"}
    readout = {"logistic": gs.Logistic, "hinge": gs.Hinge}[kind](0.3)
    ways = {
        "OneStep": one_step(1.0, 0.3, loss=kind, **fields),
        "named identity": one_step(1.0, 0.3, loss=kind, inputs=IDENTITY, **fields),
        "Network": network(gs.MaximalStep(1.0), readout=readout, **fields),
        "of two directions": network(gs.MaximalStep(1.0), readout=readout, **turned),
    }
    agree(ways, rtol=1e-8)  # what their equations are solved to
    del ways["of two directions"]
    agree(ways)


def test_a_planted_spike_is_a_planted_shift():
    """Along the target a spike is a shift; off it, only a network with a second
    direction can say it.
    """
    shifts = [[1.3], [-0.6]]
    bulk = [0.9, 1.1]
    fields = {"activation": "relu", "target": "tanh(z)", "second_layer": UNEVEN}
    spike = gs.PlantedSpike([1.3, -0.6], bulk)
    agree(
        {
            "OneStep": one_step(**fields).replace(step=spike),
            "FewSteps": (
                few_steps(**fields).replace(
                    steps=0, planted=gs.PlantedShifts(shifts, bulk)
                )
            ),
            "Network, spike": network(spike, **fields),
            "Network, shifts": network(gs.PlantedShifts(shifts, bulk), **fields),
        }
    )
    tilted = gs.PlantedSpike([1.3, -0.6], bulk, alignment=0.6)
    idle = {**fields, "target": gs.Target("tanh(z1)", directions=2)}
    along = gs.PlantedShifts(np.outer([1.3, -0.6], [0.6, 0.8]), bulk)
    # a sign of one direction of one
    names = [name for name in ALIKE if name != "test_misclassified"]
    agree(
        {
            "OneStep": one_step(**fields).replace(step=tilted),
            "Network": network(along, **idle),
        },
        names,
    )


def test_order_parameters_of_a_spike_that_vanishes():
    """The spike's axis stays the first one: t, psi, Q1 and V1 of strength 0 are those
    of small ones at a finite dim.
    """
    fields = {"activation": "tanh", "target": "sin(z)", "second_layer": ONE}
    scenario = one_step(**fields).replace(step=gs.PlantedSpike(1.0, alignment=0.3))
    found = gs.predict(scenario, step__strength=[0.0, 1e-5], dim=200)
    for name in ("t", "psi", "Q1", "V1"):
        np.testing.assert_allclose(
            found[name][0], found[name][1], rtol=1e-3, atol=1e-4, err_msg=name
        )


def test_a_floor_has_the_noise_of_its_point():
    """Points of one grid share their steps, and not their label noise."""
    few = few_steps(activation="relu", target="z1 + z1*z2", second_layer=SIGNS)
    grid = gs.predict(few, noise=[0.1, 0.3], width_per_dim=[1.0, 1.2])
    for noise in (0.1, 0.3):
        alone = gs.predict(few.replace(noise=noise), width_per_dim=[1.0, 1.2])
        for name in ("floor", "all_data_error"):
            np.testing.assert_allclose(
                grid[name].sel(noise=noise), alone[name], rtol=1e-12, err_msg=name
            )


def test_correlation_loss():
    fields = {"activation": "relu", "target": "tanh(z)", "second_layer": UNEVEN}
    step = gs.MaximalStep(1.5, loss="correlation")
    agree(
        {
            "FewSteps": few_steps(1.5, loss_of_steps="correlation", **fields),
            "OneStep": one_step(**fields).replace(step=step),
            "Network": network(step, **fields),
        }
    )


@pytest.mark.parametrize(
    "fields",
    [{"rows": "gaussian", "second_layer": UNEVEN}, {"second_layer": "gaussian"}],
)
def test_gaussian_rows_and_second_layers(fields):
    fields = {"activation": "tanh", "target": "sin(z)", **fields}
    ways = every_way(1.5, 0.1, **fields)
    agree(
        {
            name: ways[name]
            for name in ("OneStep", "named identity", "FewSteps", "Network")
        },
        dims=(100, gs.inf),
    )


def test_finite_batches():
    fields = {"activation": "relu", "target": "tanh(z)", "second_layer": UNEVEN}
    step = gs.MaximalStep(1.5, batch_per_dim=3.0)
    agree(
        {
            "OneStep": one_step(**fields).replace(step=step),
            "named identity": one_step(inputs=IDENTITY, **fields).replace(step=step),
            "equal blocks": one_step(inputs=EQUAL, **fields).replace(step=step),
            "FewSteps": few_steps(1.5, batch_per_dim=3.0, **fields),
            "Network": network(step, **fields),
        }
    )


@pytest.mark.parametrize(
    "inputs",
    [gs.InputBlocks([2.5, 0.5], [0.25, 0.75], [0.5, 0.5]), gs.PowerLaw(0.4, atoms=12)],
)
def test_inputs_with_a_covariance(inputs):
    fields = {
        "activation": "relu",
        "target": "tanh(z)",
        "second_layer": UNEVEN,
        "inputs": inputs,
    }
    agree(
        {
            "OneStep": one_step(precondition=0.5, **fields),
            "FewSteps": few_steps(precondition=0.5, **fields),
            "Network": network(gs.MaximalStep(2.0, precondition=0.5), **fields),
        },
        dims=(40, 100, gs.inf),
    )


def test_two_steps_and_their_times():
    """FewSteps and Network have the same times, and a network of the first step alone
    ends where they pass.
    """
    fields = {"activation": "relu", "target": "z1 + z1*z2", "second_layer": SIGNS}
    few = gs.predict(
        few_steps(**fields).replace(steps=2, rate=[2.0, 1.0]), dim=[100, gs.inf]
    )
    steps = gs.MaximalStep(2.0), gs.MaximalStep(1.0)
    whole = gs.predict(network(*steps, **fields), dim=[100, gs.inf])
    first = gs.predict(network(steps[0], **fields), dim=[100, gs.inf])
    for name in (*ALIKE, "theta", "Q2", "V2", "learned", "floor", "all_data_error"):
        if name in few:
            np.testing.assert_allclose(
                whole[name], few[name], rtol=1e-10, atol=1e-14, err_msg=name
            )
    np.testing.assert_allclose(
        whole.test_error.sel(time=[0, 1]), first.test_error, rtol=1e-10
    )


@pytest.mark.parametrize(
    ("what", "settings"),
    [
        ("steps", {}),
        ("along", {"kappa": [-2.0, 0.0, 1.0]}),
        ("spectrum", {"x": [0.05, 0.5, 2.0]}),
        ("resolvent", {"z": [-1.0, 1 + 1j]}),
    ],
)
def test_every_question_has_one_answer(what, settings):
    fields = {"activation": "tanh", "target": "sin(z)", "second_layer": UNEVEN}
    ways = every_way(2.0, 0.1, **fields)
    answers = [
        after(ways[name], what=what, **settings)
        for name in ("OneStep", "named identity", "FewSteps", "Network")
    ]
    shared = set.intersection(*(set(map(str, answer.data_vars)) for answer in answers))
    assert len(shared) > 4
    for name in sorted(shared - {"status", "converged", "iterations", "residual"}):
        values = [answer[name] for answer in answers]
        values = [
            v.isel({dim: 0 for dim in v.dims if str(dim).startswith("direction")})
            for v in values
        ]
        for value in values[1:]:
            np.testing.assert_allclose(
                value, values[0], rtol=1e-9, atol=1e-12, err_msg=name
            )


# -- contents --------------------------------------------------------------------------

LAW = {"width_per_dim": 1.5, "samples_per_dim": 2.0, "ridge": 0.1}
CENTRED = "relu(z) - 1/sqrt(2*pi)"


def plain(**fields):
    return gs.OneStep(
        **{**LAW, "second_layer": gs.Vocabulary([1, -1], [0.9, 0.1]), **fields}
    )


def several(**fields):
    return gs.FewSteps(
        **{**LAW, "target": "z1 + z1*z2", "second_layer": SIGNS, **fields}
    )


DIGESTS = {
    "no step": (
        plain(),
        "2f9d6b5f9cf2c5f158e7c814dc5659cc8e79ced09470074e799aa69892deeef1",
    ),
    "planted": (
        plain(step=gs.PlantedSpike([1.0, -0.5], 0.9, 0.6), noise=0.1),
        "6eeadb9a756da63a56b48e971fe953cbc51cc4b4c8369b8e9d09a82b9954ad6d",
    ),
    "maximal": (
        plain(step=gs.MaximalStep(2.0)),
        "da2ad7c9d3f80ac4a7c960476e3802e0e4371fbc14b5cec7f29546776f0dd656",
    ),
    "finite batch": (
        plain(activation="tanh", target="sin(z)", step=gs.MaximalStep(1.5, 3.0)),
        "ebf964df52cb08bd9ecc75072d59b1d9c8821cd4ec0a352decdafd1904a5fbe7",
    ),
    "small": (
        plain(
            activation=CENTRED,
            step=gs.SmallStep(1.5, 4.0, "rank-one"),
            second_layer="gaussian",
        ),
        "911611df0b24878395bc224dbb7c89fbc4374f1bc6aa013b389f50210237f2b2",
    ),
    "growing": (
        plain(activation=CENTRED, step=gs.GrowingStep(1.0, 0.3, 4.0), rows="gaussian"),
        "fa10e5a36a14b2bd07ca1370ce65c036d27119bc24ae80cf2795f473d53cf5b1",
    ),
    "own sample": (
        plain(step=gs.SmallStep(1.5, 2.0, "rank-one"), fit_sample="same"),
        "f434c53a2f6e880085c32be810b4a5fdb4b527f566ad5750a2e90f402e10a705",
    ),
    "logistic": (
        plain(target="sign(z)", loss="logistic", flip=0.05, step=gs.MaximalStep(1.0)),
        "ad2ca92d1a74d6a79102c680eae3e1c39b2e45c8cf7057eb667de38c83b0aa57",
    ),
    "covariance": (
        plain(
            inputs=gs.InputBlocks([2.5, 0.5], [0.25, 0.75], [0.5, 0.5]),
            precondition="whitened",
            step=gs.MaximalStep(2.0),
        ),
        "d88727503194e3a773ce551220aabf243ab46f4e5d1176e9c32c7d1ec20ec1a1",
    ),
    "two steps": (
        several(rate=[2.0, 1.0], steps=2, noise=0.1),
        "e67cdd927c4c6509dbae5c485286ea8be00af0a3a6ddc54d04f71dc77723f87e",
    ),
    "correlation loss": (
        several(loss_of_steps="correlation", batch_per_dim=5.0, rate=1.5),
        "165bfa59fdc64353ca4be665e8bb34907ecf0a10a7a19ab0029ac149fd5ed8cb",
    ),
    "shifts": (
        several(
            steps=0, planted=gs.PlantedShifts([[1.5, 0.5], [-1.5, 0.5]], [0.9, 1.1])
        ),
        "c22f4429b235029d590cacad03ef415d488c866b8cf27c5a0284179a02b904d8",
    ),
    "power law": (
        several(
            target="tanh(z1)",
            inputs=gs.PowerLaw(0.6),
            precondition=0.5,
            rows="gaussian",
        ),
        "0cd08efd4ac6e3783dbaae0b8c6f3aac4020e2848802ce18350c8a04df552198",
    ),
}


@pytest.mark.parametrize("name", DIGESTS)
def test_contents_are_what_they_were_before_there_was_a_network(name):
    """Stored results and random numbers are found by them."""
    scenario, digest = DIGESTS[name]
    assert scenario.digest() == digest
    content = {
        key: value for key, value in scenario.content().items() if key != "family"
    }
    assert type(scenario)(**content) == scenario


# -- experiments -----------------------------------------------------------------------


def trial(scenario, what="errors", **asked):
    """Return one trial at d = 40, after the last step, with draws of one key."""
    points = scenario.point()
    settings = scenario.prepare(
        {**points, "dim": np.array([np.inf])}, what, {"test_samples": 300, **asked}
    )
    found = scenario.trial(points, what, 40, Draws(3, "key", 0), settings)
    declared = {
        variable.name: variable.dims for variable in scenario.questions[what].variables
    }
    return {
        name: value[:, -1] if "time" in declared[name] else value
        for name, value in found.items()
    }


@pytest.mark.parametrize(
    "fields",
    [{}, {"rows": "gaussian"}, {"second_layer": "gaussian"}, {"inputs": IDENTITY}],
)
def test_experiments_of_presets_are_those_of_the_network(fields):
    """The same random numbers make the same network, steps and fit."""
    fields = {
        "activation": "tanh",
        "target": "sin(z)",
        "second_layer": UNEVEN,
        **fields,
    }
    one = trial(one_step(**fields))
    few = trial(few_steps(**fields))
    whole = trial(network(gs.MaximalStep(2.0), **fields))
    for name in ("test_error", "train_error", "objective", "norm", "Q2", "theta"):
        np.testing.assert_allclose(few[name], whole[name], rtol=1e-9, err_msg=name)
        np.testing.assert_allclose(one[name], whole[name], rtol=1e-9, err_msg=name)


def test_experiments_on_batches():
    """A stream of batches is called as it was in each family: FewSteps and Network
    agree number by number.
    """
    fields = {"activation": "tanh", "target": "sin(z)", "second_layer": UNEVEN}
    step = gs.MaximalStep(2.0, batch_per_dim=5.0)
    few = trial(few_steps(2.0, batch_per_dim=5.0, **fields))
    whole = trial(network(step, **fields))
    np.testing.assert_allclose(few["test_error"], whole["test_error"], rtol=1e-12)
    both = [
        gs.simulate(s, dim=60, trials=30, seed=1)
        for s in (one_step(**fields).replace(step=step), network(step, **fields))
    ]
    (a, da), (b, db) = (
        (
            float(r.test_error.values.flat[-1]),
            float(r.test_error_stderr.values.flat[-1]),
        )
        for r in both
    )
    assert abs(a - b) < 4 * np.hypot(da, db) and np.hypot(da, db) < 0.1 * a


def test_experiments_of_planted_and_classified_networks():
    fields = {
        "activation": "relu",
        "target": "sign(z)",
        "noise": 0.0,
        "flip": 0.1,
        "second_layer": UNEVEN,
    }
    spike = gs.PlantedSpike([1.3, -0.6], [0.9, 1.1])
    one = trial(one_step(ridge=0.3, loss="logistic", **fields).replace(step=spike))
    whole = trial(network(spike, readout=gs.Logistic(0.3), **fields))
    for name in ("test_error", "train_error", "objective", "norm"):
        np.testing.assert_allclose(one[name], whole[name], rtol=1e-9, err_msg=name)


def test_the_preconditioner_of_the_step_and_of_the_scenario_are_one():
    """Given with the step, in a grid over either, or half with each: the step's own was
    once ignored without a word.
    """
    blocks = gs.InputBlocks([2.5, 0.5], [0.25, 0.75], [0.5, 0.5])
    plain = gs.OneStep(
        width_per_dim=1.2,
        samples_per_dim=1.7,
        ridge=0.1,
        inputs=blocks,
        step=gs.MaximalStep(2.0),
    )
    whole = gs.predict(plain, precondition=[0.0, 1.0]).test_error.values
    assert whole[1] < 0.5 * whole[0]
    np.testing.assert_allclose(
        gs.predict(plain, step__precondition=[0.0, 1.0]).test_error, whole, rtol=1e-12
    )
    half = plain.replace(step__precondition=0.5, precondition=0.5)
    np.testing.assert_allclose(gs.predict(half).test_error, whole[1], rtol=1e-12)


def test_the_published_map_knows_flips_and_the_loss_of_its_step():
    """Flips shorten the spike: the printed number is that of the map before the
    families were one, 0.0978708.
    """
    fields = {
        "width_per_dim": 1.5,
        "samples_per_dim": 2.0,
        "ridge": 0.1,
        "second_layer": gs.Vocabulary([1, -1], [0.9, 0.1]),
    }
    classes = gs.OneStep(
        target="sign(z)", loss="logistic", flip=0.05, step=gs.MaximalStep(1.5), **fields
    )
    assert float(gs.predict(classes, theory="isotropic").test_error) == pytest.approx(
        0.09787080, abs=2e-8
    )
    steps = [gs.MaximalStep(1.5, loss=loss) for loss in ("square", "correlation")]
    square, correlation = (
        float(
            gs.predict(gs.OneStep(step=step, **fields), theory="isotropic").test_error
        )
        for step in steps
    )
    assert abs(square / correlation - 1) > 0.01
    with pytest.raises(
        gs.InputError, match="the published map of a step with weight decay"
    ):
        gs.predict(
            gs.OneStep(step=gs.MaximalStep(1.5, weight_decay=0.1), **fields),
            theory="isotropic",
        )


def test_planted_spikes_lie_along_one_direction():
    """Another alignment would be another direction, which was once taken for the first
    without a word.
    """
    spikes = [gs.PlantedSpike(0.5, 1.0, 0.9), gs.PlantedSpike(0.5, 1.0, 0.2)]
    with pytest.raises(
        gs.InputError, match=r"`steps.1.alignment` must be that of steps.0.alignment"
    ):
        gs.Network(
            target="tanh(z)", width_per_dim=1.2, samples_per_dim=1.7, steps=spikes
        )


@pytest.mark.parametrize("steps", [0, 3])
def test_a_list_of_rates_fits_the_steps_or_is_refused_at_once(steps):
    with pytest.raises(
        gs.InputError, match=f"`rate` must be a number or a list of {steps}"
    ):
        gs.FewSteps(
            target="z1 + z1*z2",
            width_per_dim=1.5,
            samples_per_dim=2.0,
            ridge=0.1,
            rate=[1.0, 2.0],
            steps=steps,
        )
