"""OneStep on inputs with a covariance is a FewSteps of one step."""

import numpy as np
import pytest

import giantstep as gs

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
NAMES = ("test_error", "train_error", "norm")


@pytest.mark.parametrize("step", [gs.MaximalStep(2.5), gs.NoStep()])
def test_isotropic_inputs_give_the_numbers_of_one_step(step):
    scenario = BASE.replace(step=step)
    plain, last = gs.predict(scenario), gs.predict(scenario.with_inputs(None)).isel(time=-1)
    np.testing.assert_allclose([last[name] for name in NAMES], [plain[name] for name in NAMES], rtol=1e-10)


def test_a_covariance_gives_the_printed_values():
    after = gs.predict(BASE.with_inputs(MIXED)).isel(time=1)
    printed = [0.57234704, 0.2455715, 1.5705557]  # structured_inputs section 12, setting D
    np.testing.assert_allclose([after[name] for name in NAMES], printed, rtol=0, atol=1e-7)
    assert float(gs.predict(BASE.with_inputs(MIXED, 0.5)).test_error[1]) == pytest.approx(0.48770776, abs=1e-8)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"step": gs.SmallStep(1.0, batch_per_dim=2.0)}, "step.kind"),
        ({"loss": "logistic", "target": "sign(z)", "noise": 0.0}, "loss"),
        ({"second_layer": "gaussian"}, "second_layer"),
        ({"ridge": 0.0}, "ridge"),
    ],
)
def test_what_the_theory_does_not_cover_is_refused(fields, named):
    with pytest.raises(gs.InputError, match=named):
        BASE.replace(**fields).with_inputs(MIXED)


def test_the_field_of_few_steps_is_named():
    with pytest.raises(gs.InputError, match="with_inputs"):
        gs.OneStep(width_per_dim=1.0, samples_per_dim=1.0, ridge=0.1, inputs=MIXED)
