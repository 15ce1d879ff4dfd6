"""What the page of inputs with a covariance calls missing is what the limit refuses,
and nothing else.
"""

from pathlib import Path

import pytest

import giantstep as gs

PAGE = (Path(__file__).parents[2] / "docs" / "structured_inputs.md").read_text()
MISSING = " ".join(
    PAGE.partition("## What is not there yet\n")[2].partition("\n## ")[0].split()
)
INPUTS = gs.InputBlocks([2.5, 0.5], [0.25, 0.75], [0.5, 0.5])
TWO_DIRECTIONS = {"target": "z1 + z1*z2"}
PLAIN = gs.Network(
    target="tanh(z1)",
    activation="tanh",
    noise=0.05,
    width_per_dim=1.0,
    samples_per_dim=1.5,
    readout=gs.Ridge(0.1),
    inputs=INPUTS,
    steps=[gs.MaximalStep(2.0)],
)
ON_A_BATCH = gs.MaximalStep(2.0, batch_per_dim=3.0)
CLASSES = {"target": "sign(z1)", "noise": 0.0}


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("several steps", {"steps": [ON_A_BATCH, gs.MaximalStep(1.0)]}),
        (
            "a preconditioner",
            {"steps": [gs.MaximalStep(2.0, batch_per_dim=3.0, precondition=1.0)]},
        ),
        ("several directions", {"steps": [ON_A_BATCH], **TWO_DIRECTIONS}),
        ("Gaussian rows", {"steps": [ON_A_BATCH], "rows": "gaussian"}),
        ("Small, growing", {"steps": [gs.SmallStep(1.0, batch_per_dim=2.0)]}),
        (
            "growing and sign steps",
            {"steps": [gs.GrowingStep(1.0, exponent=0.1, batch_per_dim=2.0)]},
        ),
        ("sign steps", {"steps": [gs.SignStep(1.0)]}),
        (
            "alignment with the target is not 1 or -1",
            {"steps": [gs.PlantedSpike(1.0, alignment=0.5)]},
        ),
        (
            "the step's own sample",
            {"steps": [gs.MaximalStep(2.0, batch_per_dim=1.5)], "fit_sample": "same"},
        ),
    ],
)
def test_what_the_page_calls_missing_is_refused(words, change):
    assert words in MISSING
    with pytest.raises(gs.InputError, match="has no limit here"):
        gs.predict(PLAIN.replace(change))


@pytest.mark.parametrize("what", ["variance", "sensitivity", "shift", "calibration"])
def test_questions_that_the_page_calls_missing_are_refused(what):
    assert f"`{what}`" in MISSING
    with pytest.raises(gs.InputError, match="has no limit here"):
        gs.predict(PLAIN, what=what)


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("Planted spikes along the target", {"steps": [gs.PlantedSpike(1.0)]}),
        (
            "Planted spikes along the target",
            {"steps": [gs.PlantedSpike(1.0, alignment=-1.0)]},
        ),
        ("logistic", {**CLASSES, "readout": gs.Logistic(0.1)}),
        ("hinge", {**CLASSES, "readout": gs.Hinge(0.1)}),
        (
            "`batch_per_dim=gs.inf`, the default, is answered everywhere",
            {"rows": "gaussian"},
        ),
    ],
)
def test_what_the_page_calls_answered_is_answered(words, change):
    assert words in MISSING
    network = PLAIN.replace(change)
    assert bool(gs.predict(network).converged.all())


@pytest.mark.parametrize(
    "step", [gs.NoStep(), gs.MaximalStep(3.0), gs.PlantedSpike(1.0)]
)
def test_one_step_answers_the_steps_that_the_page_names(step):
    one = gs.OneStep(
        target="sin(z)",
        activation="tanh",
        width_per_dim=1.0,
        samples_per_dim=1.5,
        ridge=0.1,
        inputs=INPUTS,
        step=step,
    )
    assert "a maximal step, a planted spike along the target and no step" in " ".join(
        PAGE.split()
    )
    assert bool(gs.predict(one).converged)
