"""Derivatives of limits: against closed forms and against differences of the limit made
another way.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.scenario.families import SHIPPED, family_class
from giantstep.tools.design.sensitivity import WIDTHS, extrapolate

LINEAR = gs.MixtureGLM(labels="linear", noise=0.3, ridge=0.3, samples_per_dim=1.5)


def five_point(scenario, field, variable, pick=lambda values: values):
    """Return d variable/d field by the five-point rule, whose error is of the fourth
    order.
    """
    at = scenario.numeric_fields()[field][0]
    step = 0.004 * at
    values = [
        float(pick(gs.predict(scenario, {field: at + k * step})[variable]))
        for k in (-2, -1, 1, 2)
    ]
    return (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step)


def test_derivatives_at_the_best_ridge_are_those_of_bayes():
    alpha = np.array([0.5, 1.5, 4.0])
    noise = 0.3
    result = gs.sensitivity(
        LINEAR,
        of="test_mse",
        to=["samples_per_dim", "ridge", "noise"],
        samples_per_dim=alpha,
    )
    # total error v = noise + E solves alpha = (1/E - 1) v; the best ridge has no
    # first-order effect
    error = result.test_mse.values - noise
    slope = 1 / (1 / error - 1 - (noise + error) / error**2)
    np.testing.assert_allclose(
        result.derivative.sel(field="samples_per_dim"), slope, rtol=1e-9
    )
    assert np.abs(result.derivative.sel(field="ridge")).max() < 1e-9
    expected = result.derivative * result["at"] / result.test_mse
    np.testing.assert_allclose(result.elasticity, expected, rtol=1e-12, atol=1e-15)
    assert (result.derivative_error < 1e-9).all()


@pytest.mark.parametrize(
    ("scenario", "variable", "fields"),
    [
        (gs.OneStep.example(), "test_error", ["ridge", "width_per_dim", "step.rate"]),
        (
            gs.MixtureGLM.example(),
            "test_error",
            ["ridge", "samples_per_dim", "teacher_norm"],
        ),
        (gs.MixtureGLM.example(), "q[cluster=2]", ["ridge"]),
    ],
)
def test_derivatives_are_differences_of_the_limit(scenario, variable, fields):
    result = gs.sensitivity(scenario, of=variable, to=fields)
    name, _, entry = variable.rstrip("]").partition("[cluster=")
    for field in fields:
        expected = five_point(
            scenario, field, name, lambda v: v.sel(cluster=int(entry)) if entry else v
        )
        measured = float(result.derivative.sel(field=field))
        assert measured == pytest.approx(expected, rel=1e-7, abs=1e-9)


@pytest.mark.filterwarnings("ignore::giantstep.GiantstepWarning")
def test_one_sided_whole_and_infinite_fields():
    s = gs.OneStep.example()
    # at 0, and it cannot be below: E grows linearly with it
    result = gs.sensitivity(s, to=["noise"])
    two = gs.predict(s, noise=[0.0, 0.25]).test_error.values
    assert float(result.derivative[0]) == pytest.approx(
        (two[1] - two[0]) / 0.25, rel=1e-9
    )
    few = gs.FewSteps.example().replace(steps=1)
    result = gs.sensitivity(few, of="test_error[time=1]", to=["steps", "batch_per_dim"])
    assert "batch_per_dim is infinite" in str(
        result.remark.values
    ) and "steps counts" in str(result.remark.values)
    assert np.isnan(result.derivative.sel(field="batch_per_dim"))


def test_every_finite_numeric_field_is_there_by_default_and_the_largest_first():
    s = gs.OneStep.example()
    result = gs.sensitivity(s)
    assert set(result.field.values) == {
        n for n, (v, _) in s.numeric_fields().items() if np.isfinite(v)
    }
    sizes = np.nan_to_num(abs(result.elasticity.values))
    assert (np.diff(sizes) <= 0).all()
    assert "flip" in str(result.remark.values)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::giantstep.GiantstepWarning")
@pytest.mark.parametrize("family", sorted(SHIPPED))
def test_every_family_has_sensitivities(family):
    s = family_class(family).example()
    answer = gs.predict(s)
    variables = next(iter(s.questions.values())).variables
    known = [
        v for v in variables if v.name in answer and answer[v.name].dtype.kind == "f"
    ]
    variable = min(known, key=lambda v: len(v.dims))
    entry = ", ".join(f"{dim}={answer[dim].values[-1]}" for dim in variable.dims)
    name = next(
        n
        for n, (v, info) in s.numeric_fields().items()
        if info.annotation is not int and 0 < v < np.inf
    )
    result = gs.sensitivity(
        s, of=f"{variable.name}[{entry}]" if entry else variable.name, to=name
    )
    assert np.isfinite(result.derivative).all() and result.converged.all()


def test_names_have_no_derivative():
    with pytest.raises(gs.InputError, match="`phase` holds names, not numbers"):
        gs.sensitivity(
            family_class("bayes-limit").example(), of="phase", to="samples_per_dim"
        )


def test_extrapolation_knows_its_error():
    x = np.array([0.3, 1.0, 2.0])[:, None]
    for function, exact in ((np.exp, np.exp), (np.sin, np.cos)):
        slope, error = extrapolate(
            (function(x + WIDTHS) - function(x - WIDTHS)) / (2 * WIDTHS), 2
        )
        assert (np.abs(slope - exact(x[:, 0])) <= error + 1e-12).all() and (
            error < 1e-10
        ).all()
        slope, error = extrapolate((function(x + WIDTHS) - function(x)) / WIDTHS, 1)
        assert (np.abs(slope - exact(x[:, 0])) <= error + 1e-10).all() and (
            error < 1e-7
        ).all()
    jump = np.sign(x - 1.0 + WIDTHS) / WIDTHS
    assert extrapolate(jump, 1)[1][1] > 1
    assert np.isnan(extrapolate(np.full((1, 6), np.nan), 2)).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"to": "rigde"}, "did you mean `ridge`"),
        ({"to": []}, "at least one numeric field"),
        ({"to": ["labels"]}, "numeric fields"),
        ({"of": "tset_mse"}, "did you mean `test_mse`"),
    ],
)
def test_bad_questions_are_refused_in_a_sentence(arguments, message):
    with pytest.raises(gs.InputError, match=message):
        gs.sensitivity(LINEAR, **arguments)


def test_the_result_prints_and_plots(tmp_path):
    result = gs.sensitivity(LINEAR, of="test_mse", to=["ridge", "samples_per_dim"])
    assert "depends on" in str(result) and "derivative error" in str(result)
    (axes,) = gs.plot(result, path=tmp_path / "tornado.png").axes
    wanted = {
        "ridge": r"ridge, $\lambda$",
        "samples_per_dim": r"samples per dim, $\alpha$",
    }
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        wanted[name] for name in result.field.values
    ]
    gs.save(result, tmp_path / "result.nc")
    again = gs.load(tmp_path / "result.nc")
    assert len(gs.plot(again).axes) == 1
    lines = gs.sensitivity(
        LINEAR, of="test_mse", to=["ridge", "noise"], samples_per_dim=[1.0, 2.0]
    )
    assert (
        lines.elasticity.dims == ("samples_per_dim", "field")
        and len(gs.plot(lines).axes) == 1
    )
