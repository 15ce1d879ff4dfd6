"""The programs that `giantstep.script` writes: what they print is what `simulate` and
the limit say.
"""

import pytest

import giantstep as gs
from giantstep.core.scenario.families import SHIPPED
from giantstep.problems.online_sgd.script import shown_times

from .programs import check_against_simulate, numbers_of, run_program, scores

LINE = 4.5
"""Joint standard errors; about a hundred numbers in all, so that chance passes it once
in a thousand runs.
"""

WITHOUT_GRADIENTS = ("mixture-glm", "bayes-limit", "subspace-clustering")
"""Families whose experiment is no network trained by gradient steps: PyTorch is
refused.
"""


def in_both_languages(cases):
    """Return pairs of a case and a language in which it can be written."""
    learns = [
        case for case in cases if scenario_of(case).family not in WITHOUT_GRADIENTS
    ]
    return [(case, "numpy") for case in cases] + [(case, "torch") for case in learns]


def scenario_of(case):
    return CASES[case][0] if case in CASES else MORE[case]


TANH = gs.Network(
    target="tanh(z)",
    noise=0.1,
    activation="tanh",
    width_per_dim=1.0,
    samples_per_dim=1.5,
    second_layer=gs.Vocabulary([1.0, -0.5], [0.7, 0.3]),
)
MIXED_STEPS = [
    gs.MaximalStep(1.0, 3.0, loss="correlation"),
    gs.MaximalStep(1.0, 3.0, momentum=0.5, weight_decay=0.1),
]

SGD = gs.OnlineSGD.example().replace(dim=60, batch_size=20, noise=0.1)
TWO_NEURONS = gs.OnlineSGD(
    target="z1 + z1*z2",
    activation="tanh",
    second_layer=[1.0, -1.0],
    dim=60,
    batch_size=10,
    rate=0.3,
    steps=20,
    initial_overlap="random",
    initial_gram="random",
    constraint="spherical",
    algorithm="tanh(z)",
)

CASES = {
    "network, two steps": (gs.Network.example(), 40, 16, {}),
    "network, momentum": (TANH.replace(steps=MIXED_STEPS), 40, 24, {}),
    "network, own sample": (
        TANH.replace(
            steps=[gs.MaximalStep(1.0), gs.MaximalStep(2.0, 1.5, loss="correlation")],
            fit_sample="same",
        ),
        40,
        24,
        {},
    ),
    "one-step, own sample": (
        gs.OneStep.example().replace(
            step=gs.MaximalStep(2.0, batch_per_dim=2.0), fit_sample="same"
        ),
        40,
        24,
        {},
    ),
    "one-step, population": (gs.OneStep.example(), 40, 16, {}),
    "one-step, batch": (
        gs.OneStep.example().replace(step=gs.MaximalStep(2.0, batch_per_dim=2.0)),
        40,
        24,
        {},
    ),
    "few-steps": (gs.FewSteps.example().replace(steps=1), 40, 16, {}),
    "few-steps, planted": (
        gs.FewSteps.example().replace(
            steps=0, planted=gs.PlantedShifts([[1.5, 0.5], [-1.5, 0.5]])
        ),
        40,
        24,
        {},
    ),
    "giant-steps": (gs.GiantSteps.example(), 40, 60, {}),
    "giant-steps, a list": (
        gs.GiantSteps(
            target="z1 + z1*z2",
            activation="tanh",
            second_layer=[1.0, -0.5, 2.0],
            rate=1.0,
            batch_per_dim=4.0,
            steps=2,
        ),
        40,
        60,
        {},
    ),
    "batch-reuse": (gs.BatchReuse.example(), 60, 40, {}),
    "batch-reuse, fresh": (
        gs.BatchReuse(
            target="h3(z)/sqrt(6)",
            activation="relu",
            second_layer=[1.0, -1.0],
            samples_per_dim=2,
            rate=0.2,
            steps=2,
            noise=0.1,
            momentum=0.3,
            data="fresh",
            loss="correlation",
            initial_overlap=[[0.3], [0.1]],
            constraint="spherical",
        ),
        60,
        30,
        {},
    ),
    "online-sgd": (SGD, 60, 30, {"times": shown_times(12), "simulator": "direct"}),
    "online-sgd, two neurons": (TWO_NEURONS, 60, 30, {"times": shown_times(20)}),
    "mixture-glm": (gs.MixtureGLM.example(), 40, 20, {}),
    "mixture-glm, clusters": (
        gs.MixtureGLM(
            weights=[0.3, 0.7],
            mean_gram=[[1, -1], [-1, 1]],
            labels="cluster",
            loss="square",
            ridge=0.1,
            samples_per_dim=2.0,
            flip=0.05,
            intercept=True,
            loss_weights=[2.0, 1.0],
            test_weights=[0.5, 0.5],
        ),
        40,
        20,
        {},
    ),
    "bayes-limit": (gs.BayesLimit.example(), 60, 20, {}),
    "bayes-limit, labels": (
        gs.BayesLimit(target="sign(z)", flip=0.05, samples_per_dim=2.0),
        60,
        16,
        {},
    ),
    "subspace-clustering": (gs.SubspaceClustering.example(), 100, 40, {}),
    "subspace-clustering, three": (
        gs.SubspaceClustering.example().replace(clusters=3, snr=8.0),
        100,
        40,
        {},
    ),
}
"""Two scenarios of every family: scenario, dimension, trials, settings of
`simulate`.
"""

MORE = {
    "logistic": TANH.replace(
        target="sign(z)",
        noise=0.0,
        flip=0.05,
        readout=gs.Logistic(0.1),
        steps=[gs.MaximalStep(2.0, 4.0)],
    ),
    "spike": TANH.replace(
        steps=[gs.PlantedSpike(1.0, alignment=0.5), gs.MaximalStep(1.0, 4.0)]
    ),
    "cycle": (
        gs.BatchReuse.example().replace(data="cycle", batches=2, second_layer_rate=0.1)
    ),
    "huber": gs.MixtureGLM.example().replace(labels="linear", loss="huber"),
    "even": gs.BayesLimit(target="abs(z)", noise=0.1, samples_per_dim=8.0),
    "no ridge": TANH.replace(
        readout=gs.Ridge(0.0), rows="gaussian", steps=[gs.NoStep()]
    ),
}
"""Options that the two scenarios of a family leave out."""


def test_every_family_has_two_scenarios_here():
    """Catches a family whose program no test runs."""
    families = [scenario.family for scenario, *_ in CASES.values()]
    assert all(families.count(name) >= 2 for name in SHIPPED)


@pytest.mark.parametrize("case", CASES)
def test_a_program_prints_what_simulate_measures(case, tmp_path):
    """Catches a wrong definition in either implementation, a variable that is missing,
    and a program too long.
    """
    scenario, dim, trials, asked = CASES[case]
    table, other = check_against_simulate(scenario, tmp_path, dim, trials, **asked)
    assert set(table) == set(other)
    found = scores(table, other)
    assert max(found.values()) < LINE, sorted(found.items(), key=lambda item: -item[1])[
        :3
    ]


@pytest.mark.parametrize(("case", "lang"), in_both_languages(CASES))
def test_programs_are_short_and_alone(case, lang):
    text = gs.script(CASES[case][0], dim=CASES[case][1], lang=lang)
    assert len(text.splitlines()) <= 120 and max(map(len, text.splitlines())) <= 160
    assert "giantstep" not in text
    compile(text, "experiment.py", "exec")


@pytest.mark.slow
@pytest.mark.parametrize(("case", "lang"), in_both_languages(MORE))
def test_other_options_agree_too(case, lang, tmp_path):
    if lang == "torch":
        pytest.importorskip("torch")
    table, other = check_against_simulate(MORE[case], tmp_path, 40, 40, lang=lang)
    assert set(table) == set(other)
    assert max(scores(table, other).values()) < LINE


LIMITS = {
    "network, two steps": (80, 16, ["test_error", "train_error", "norm"], 0.03),
    "few-steps": (80, 16, ["test_error", "train_error", "norm"], 0.03),
    "one-step, batch": (80, 16, ["test_error", "train_error", "norm"], 0.03),
    "giant-steps": (150, 60, ["norm", "gradient_cosine"], 0.03),
    "batch-reuse": (150, 40, ["Q", "train_loss", "population_loss"], 0.02),
    "online-sgd": (60, 60, ["M", "mse"], 0.05),
    "mixture-glm": (100, 20, ["test_error", "train_loss", "norm"], 0.03),
    "bayes-limit": (150, 20, ["q", "mse"], 0.03),
    "subspace-clustering": (300, 20, ["m_u", "m_v", "accuracy"], 0.03),
}
"""Case -> dimension, trials, variables, and what a finite dimension may change,
relative (about 2/d to 5/d).
"""


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:After 1 step z2 is not learnt:giantstep.GiantstepWarning"
)
@pytest.mark.parametrize(("case", "lang"), in_both_languages(LIMITS))
def test_a_program_agrees_with_the_limit(case, lang, tmp_path):
    """Catches a definition that both experiments share and the theory does not."""
    (scenario, _, _, asked), (dim, trials, names, allow) = CASES[case], LIMITS[case]
    if lang == "torch":
        pytest.importorskip("torch")
    table = run_program(
        gs.script(scenario, dim=dim, trials=trials, seed=3, lang=lang), tmp_path
    )
    fixed = "dim" in type(scenario).model_fields
    times = {name: value for name, value in asked.items() if name == "times"}
    theory = numbers_of(
        gs.predict(scenario, **({} if fixed else {"dim": dim}), **times),
        scenario,
        names,
    )
    found = scores({key: table[key] for key in theory if key in table}, theory, allow)
    assert found and max(found.values()) < LINE, sorted(
        found.items(), key=lambda item: -item[1]
    )[:3]


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [case for case, lang in in_both_languages(CASES) if lang == "torch"]
)
def test_torch_programs_agree(case, tmp_path):
    """Catches a gradient of autograd that is not the step of the definition."""
    pytest.importorskip("torch")
    scenario, dim, trials, asked = CASES[case]
    table, other = check_against_simulate(
        scenario, tmp_path, dim, trials, lang="torch", **asked
    )
    assert set(table) == set(other) and max(scores(table, other).values()) < LINE


def test_a_seed_is_a_program_with_one_answer(tmp_path):
    text = gs.script(gs.OneStep.example(), dim=20, trials=3)
    again = run_program(text, tmp_path)
    other = run_program(text.replace("seed = 3, 0", "seed = 3, 1"), tmp_path)
    assert run_program(text, tmp_path) == again != other


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"lang": "jax"}, "Field `lang` must be numpy or torch, but is lang='jax'."),
        (
            {"trials": 1},
            (
                "Field `trials` must be a whole number at least 2, since one trial has"
                " no spread, but is"
            ),
        ),
        ({"dim": 1}, "Field `dim` must be a whole number at least 2, but is dim=1."),
    ],
)
def test_bad_settings_are_one_sentence(change, sentence):
    with pytest.raises(gs.InputError, match="Field") as caught:
        gs.script(gs.OneStep.example(), **change)
    assert str(caught.value).startswith(sentence)


def test_what_is_not_covered_is_one_sentence():
    callable_ = gs.OneStep.example().replace(activation=lambda z: z + 0.1 * z**2)
    with pytest.raises(
        gs.InputError,
        match="`activation` must be an expression where a script is written",
    ):
        gs.script(callable_)
    classes = gs.OneStep.example().replace(target="sign(z)", loss="hinge")
    with pytest.raises(
        gs.InputError,
        match=(
            "`loss` must be another one where a script is written, but is loss='hinge'"
        ),
    ):
        gs.script(classes)
    with pytest.raises(
        gs.InputError,
        match=(
            "`step.kind` must be one of none, maximal, planted, shifts where a script"
        ),
    ):
        gs.script(gs.OneStep.example_for("spikes"))
    with pytest.raises(gs.InputError, match="needs a scenario, not a str"):
        gs.script("one-step")
    for family, scenario in (
        (scenario.family, scenario) for scenario, *_ in CASES.values()
    ):
        if family in WITHOUT_GRADIENTS:
            with pytest.raises(
                gs.InputError, match=f"`lang` must be numpy for the family {family}"
            ):
                gs.script(scenario, lang="torch")


def test_a_shift_is_refused_rather_than_ignored():
    network = gs.Network(
        width_per_dim=1.5, samples_per_dim=2.0, shift=gs.Shift(scale=2.0)
    )
    with pytest.raises(
        gs.InputError, match="Field `shift` must be left out where a script is written"
    ):
        gs.script(network, dim=60)
