"""Pictures without excuses: smooth limits, maps with contours, named regions, legends
beside the data.
"""

from __future__ import annotations

import numpy as np
import pytest
import toys
import xarray as xr
from matplotlib.collections import QuadMesh

import giantstep as gs
from giantstep.tools.figures.fine import MOST_POINTS, fine_limit
from giantstep.tools.figures.labels import mathtext, x_label, y_label
from giantstep.tools.figures.plot import plot
from giantstep.tools.figures.reading import Reading
from giantstep.tools.figures.style import new_figure, plain_log_axes

SCENARIO = gs.OneStep(
    activation="relu",
    target="tanh(z)",
    width_per_dim=1.5,
    samples_per_dim=2.0,
    ridge=0.1,
    second_layer=gs.Vocabulary([1, -1], [0.9, 0.1]),
    step=gs.MaximalStep(rate=2.0),
)


@pytest.fixture(scope="module")
def learning_curve() -> xr.Dataset:
    return gs.compare(
        SCENARIO, dim=40, trials=2, samples_per_dim=[0.5, 1.0, 3.0], ridge=[0.1, 1.0]
    )


def limit_lines(axes):
    return [
        line
        for line in axes.lines
        if line.get_linestyle() == "-" and len(line.get_xdata()) > 3
    ]


def test_the_limit_of_a_comparison_is_a_curve_of_its_own(learning_curve):
    (axes,) = plot(learning_curve, "test_error").axes
    lines = limit_lines(
        axes
        # of each ridge the bare limit, thin, and the theory at the dimension of the
        # experiment
    )
    widths = [line.get_linewidth() for line in lines]
    assert len(lines) == 4 and max(widths[::2]) < 0.7 < 1.4 < min(widths[1::2])
    for line, (ridge, dim) in zip(
        lines, ((0.1, None), (0.1, 40), (1.0, None), (1.0, 40))
    ):
        x, y = line.get_data()
        assert 30 < len(x) <= MOST_POINTS and (np.diff(x) > 0).all()
        exact = gs.predict(
            SCENARIO, dim=dim, samples_per_dim=list(x[::9]), ridge=ridge
        ).test_error
        np.testing.assert_allclose(y[::9], exact, rtol=1e-9)
    # no word on classes
    assert axes.get_title(loc="left").endswith("fresh samples, label noise included")
    said = [text.get_text() for text in axes.get_legend().get_texts()]
    assert {"theory at d = 40", r"limit, $d \to \infty$"} < set(said) and not any(
        "dots" in text for text in said
    )


def test_a_limit_at_a_finite_dimension_has_its_own_numbers_of_samples(learning_curve):
    fine = fine_limit(learning_curve, "samples_per_dim", ["test_error"], "theory")
    assert fine is not None
    samples = 40 * fine.samples_per_dim.values
    np.testing.assert_allclose(samples, np.round(samples), atol=1e-9)


@pytest.mark.parametrize("change", ["numbers", "paired", "scenario", "one side"])
def test_a_limit_that_cannot_be_asked_again_says_so(learning_curve, change):
    if change == "scenario":
        result = learning_curve.isel(ridge=0, drop=True)
    else:
        result = learning_curve.copy(deep=True)
    if change == "numbers":
        result["test_error"] = 1.1 * result["test_error"]
    elif change == "paired":
        result = result.assign_coords(ratio=("samples_per_dim", [1.0, 2.0, 3.0]))
    elif change == "scenario":
        result.attrs.pop("scenario")
    else:
        result = result.sel(source=["experiment"])
    assert fine_limit(result, "samples_per_dim", ["test_error"]) is None
    (axes,) = plot(result, "test_error", x="samples_per_dim").axes
    said = [text.get_text() for text in axes.get_legend().get_texts()]
    assert ("theory at d = 40, at the dots only" in said) == (change != "one side")


@pytest.mark.parametrize("power", [1, -1])
def test_fields_that_vary_together_are_a_smooth_curve_over_any_axis(power):
    """n/p on the axis, as in papers: a field that is linear in it, or a power of it, is
    known between the points.
    """
    ratio = np.array([0.4, 0.8, 2.0])
    along = {"dims": "ratio", "coords": {"ratio": ratio}}
    samples = xr.DataArray(1.5 * ratio**power, **along)
    ridge = xr.DataArray(0.1 * ratio**power, **along)
    result = gs.compare(
        SCENARIO, dim=40, trials=2, samples_per_dim=samples, ridge=ridge
    )
    for layer, dim in (("limit", None), ("theory", 40)):
        fine = fine_limit(result, "ratio", ["test_error"], layer)
        assert fine is not None and fine.sizes["ratio"] > 30
        np.testing.assert_allclose(
            fine.samples_per_dim, 1.5 * fine.ratio**power, rtol=1e-12
        )
        point = fine.isel(ratio=17)
        pair = {name: float(point[name]) for name in ("samples_per_dim", "ridge")}
        exact = gs.predict(SCENARIO, pair, dim=dim).test_error
        assert float(point.test_error) == pytest.approx(float(exact), rel=1e-9)
    # whole numbers of samples at a finite dimension
    counts = 40 * fine.samples_per_dim.values
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-9)
    (axes,) = plot(result, "test_error").axes
    said = [text.get_text() for text in axes.get_legend().get_texts()]
    assert "theory at d = 40" in said and not any("dots" in text for text in said)
    # a field of the pair as axis
    assert fine_limit(result, "samples_per_dim", ["test_error"], "theory") is not None


def test_fields_that_follow_no_line_keep_their_dots():
    ratio = np.array([0.5, 1.0, 3.0])
    samples = xr.DataArray([0.5, 2.0, 2.5], dims="ratio", coords={"ratio": ratio})
    result = gs.compare(SCENARIO, dim=40, trials=2, samples_per_dim=samples)
    assert fine_limit(result, "ratio", ["test_error"], "theory") is None


def test_a_comparison_and_an_experiment_lie_over_each_other(monkeypatch):
    """ "Same data or fresh?" is one figure, though one of the two has no theory."""
    monkeypatch.setattr("giantstep.tools.figures.fine.SECONDS", 0.5)
    ratio = xr.DataArray(
        [0.5, 1.0, 2.0], dims="alpha", coords={"alpha": [0.5, 1.0, 2.0]}
    )
    shared = {"samples_per_dim": ratio, "step__batch_per_dim": ratio}
    drawn = {"dim": 40, "trials": 2}
    same = SCENARIO.replace({"step.batch_per_dim": 2.0, "fit_sample": "same"})
    fresh = gs.compare(SCENARIO, **shared, **drawn)
    theory = gs.predict(SCENARIO, dim=40, **shared)
    measured = gs.simulate(same, keep_trials=True, **shared, **drawn)
    (axes,) = plot([fresh, measured], "test_error", labels=["fresh", "same"]).axes
    # bare limit and theory
    assert len([line for line in limit_lines(axes) if len(line.get_xdata()) > 3]) == 2
    assert (
        len(
            [
                bars
                for bars in axes.containers
                if bars.has_yerr and len(bars.lines[0].get_xdata()) == 3
            ]
        )
        == 2
    )
    legend = axes.get_legend()
    keys = dict(
        zip((text.get_text() for text in legend.get_texts()), legend.legend_handles)
    )
    assert (
        keys["same"].get_linestyle() == "None"
        and keys["fresh"].get_linestyle() != "None"
    )
    assert "not computed" not in keys and "theory at d = 40" in keys
    for parts in ([measured, fresh], [theory, measured], [theory, fresh]):
        (axes,) = plot(parts, "test_error", labels=["one", "other"], smooth=False).axes
        said = [text.get_text() for text in axes.get_legend().get_texts()]
        assert (
            any("theory at d = 40" in text for text in said)
            and "not computed" not in said
        )
    with pytest.warns(gs.GiantstepWarning, match="3 of 6 points were not solved"):
        mixed = gs.compare({"fresh": SCENARIO, "same": same}, **shared, **drawn)
    (axes,) = plot(mixed, "test_error", smooth=False).axes
    assert "not computed" not in [
        text.get_text() for text in axes.get_legend().get_texts()
    ]
    lines = [
        line
        for line in axes.lines
        if line.get_linestyle() == "-" and len(line.get_xdata()) == 3
    ]
    assert len(lines) == 2  # the bare limit and the theory of one of the two


def test_points_of_a_curve_are_even_on_its_axis():
    """A wide or geometric axis is drawn in logarithms."""
    from giantstep.tools.figures.fine import _spread

    assert np.ptp(np.diff(_spread(np.array([0.0, 1.0, 3.0]), 40))) < 1e-12
    assert np.ptp(np.diff(np.log(_spread(np.array([0.1, 1.0, 10.0]), 40)))) < 1e-12


def test_fields_may_be_named_as_keywords_are():
    result = gs.predict(SCENARIO, step__rate=[0.5, 1.0, 2.0])
    (axes,) = plot(result, "test_error", x="step__rate").axes
    assert axes.get_xlabel() == r"step size divided by the width,  $\eta$"


def test_labels_are_typeset_from_the_notation():
    assert (
        mathtext("lambda_algB/lambda_alg")
        == r"$\lambda_{\mathrm{algB}}/\lambda_{\mathrm{alg}}$"
    )
    assert mathtext("M_jr/sqrt(Q_jj)") == r"$M_{jr}/\sqrt{Q_{jj}}$"
    assert mathtext("P(c_hat = c)") == r"$\mathrm{P}(\hat c  = c)$"
    about = xr.DataArray(
        [1.0], dims="a", attrs={"symbol": "m_u", "long_name": "an overlap"}
    )
    assert y_label(about, "m_u") == "$m_{u}$"
    rate = about.assign_attrs(toys.ABOUT["step.rate"])
    assert (
        x_label(
            rate, "step.rate", gs.OneStep.questions["errors"].dimension("step.rate")
        )
        == r"step size divided by the width,  $\eta$"
    )


def test_updates_are_counted_in_whole_numbers():
    time = np.arange(3.0)
    result = xr.Dataset({"a": ("time", time**2)}, {"time": time}, {"engine": "limit"})
    figure = plot(result)
    figure.draw_without_rendering()
    ticks = figure.axes[0].get_xticks()
    assert (ticks == np.round(ticks)).all()


def test_a_map_has_contours_and_marks_the_best_point():
    result = toys.prediction(12, 10)
    axes, bar = plot(result).axes
    assert any(type(child).__name__ == "QuadContourSet" for child in axes.collections)
    (star,) = [line for line in axes.lines if line.get_marker() == "*"]
    best = result.test_error.where(
        result.test_error == result.test_error.min(), drop=True
    )
    assert (star.get_xdata()[0], star.get_ydata()[0]) == (
        best.samples_per_dim.item(),
        best.ridge.item(),
    )
    assert "(star: smallest, " in bar.get_ylabel()


def test_two_fields_with_branches_make_a_map_of_each_branch():
    base = toys.prediction(12, 10).drop_vars("converged")
    stacked = xr.concat(
        [base, 2 * base, 3 * base], xr.IndexVariable("branch", ["a", "b", "c"])
    )
    figure = plot(
        stacked.transpose("samples_per_dim", "ridge", "branch").assign_attrs(
            base.attrs
        ),
        "test_error",
    )
    titles = [
        axes.get_title(loc="left") for axes in figure.axes if axes.get_title(loc="left")
    ]
    assert titles == ["a", "b", "c"]


def phases(two: bool) -> xr.Dataset:
    x = np.linspace(0, 1, 9)
    y = np.linspace(0, 1, 7)
    names = np.where(
        x[:, None] + y < 0.7,
        "impossible",
        np.where(x[:, None] + y < 1.2, "hard", "easy"),
    )
    about = {"long_name": "impossible, hard or easy"}
    whole = xr.Dataset(
        {"phase": (("a", "b"), names, about)}, {"a": x, "b": y}, {"engine": "limit"}
    )
    return whole if two else whole.isel(b=3, drop=True)


@pytest.mark.parametrize("two", [True, False])
def test_a_variable_of_names_is_coloured_regions_with_their_names(two):
    (axes,) = plot(phases(two), "phase").axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "impossible",
        "hard",
        "easy",
    ]
    (mesh,) = [child for child in axes.collections if isinstance(child, QuadMesh)]
    assert mesh.get_array().shape == ((7, 9) if two else (1, 9))
    assert mesh.get_array().ravel()[0] == 0 and mesh.get_array().ravel()[-1] == 2


def test_names_over_one_field_are_a_strip_for_each_other_entry_wherever_its_dimension_stands():
    names = np.where(np.add.outer(np.arange(9), np.arange(3)) > 4, "hard", "easy")
    coords = {"a": np.linspace(1, 2, 9), "kind": ["x", "y", "z"]}
    result = xr.Dataset({"phase": (("a", "kind"), names)}, coords, {"engine": "limit"})
    for drawn in (result, result.transpose()):
        (axes,) = plot(drawn, "phase").axes
        assert [text.get_text() for text in axes.get_yticklabels()] == ["x", "y", "z"]


def test_curves_that_coincide_all_show():
    same = np.linspace(0, 1, 30) ** 2
    values = np.stack([same, same, same + 0.5], axis=1)
    coords = {"a": np.linspace(0, 1, 30), "branch": ["x", "y", "z"]}
    (axes,) = plot(
        xr.Dataset({"m": (("a", "branch"), values)}, coords, {"engine": "limit"})
    ).axes
    dashes = [
        str(line._dash_pattern) for line in axes.lines if len(line.get_xdata()) == 30
    ]
    assert len(set(dashes)) == 3  # what lies below shows between the dashes


def test_a_legend_that_would_hide_data_stands_beside_it():
    rng = np.random.default_rng(0)
    values = rng.uniform(0, 1, (200, 5))
    coords = {"a": np.linspace(0, 1, 200), "branch": list("vwxyz")}
    figure = plot(
        xr.Dataset({"m": (("a", "branch"), values)}, coords, {"engine": "limit"})
    )
    (axes,) = figure.axes
    figure.draw_without_rendering()
    assert axes.get_legend().get_window_extent().x0 > axes.bbox.x1


def test_more_curves_than_a_legend_holds_are_counted():
    result = xr.Dataset(
        {"m": (("time", "neuron"), np.zeros((3, 40)))},
        {"time": [0, 1, 2]},
        {"engine": "limit"},
    )
    (axes,) = plot(result).axes
    assert axes.get_legend().get_texts()[0].get_text().startswith("40 curves:")


def test_a_density_is_shown_down_to_zero_and_logarithmic_on_request():
    result = toys.spectrum()
    highest = float(result.density.max())
    (axes,) = plot(result, "density").axes
    assert (
        axes.get_ylim()[0] == 0
        and axes.get_ylim()[1] >= highest
        and axes.get_xlim()[0] == 0
    )
    assert plot(result, "density", log="y").axes[0].get_yscale() == "log"


def test_a_default_variable_that_was_never_computed_has_no_panel():
    result = toys.comparison().assign_attrs(plot='["null_error", "test_error"]')
    result["null_error"] = np.nan * result["null_error"]
    assert Reading(result).chosen(None) == ["test_error"]


@pytest.mark.parametrize(
    ("scenario", "title", "label"),
    [
        (
            gs.MixtureGLM(
                labels="sign", loss="logistic", ridge=0.1, samples_per_dim=2.0
            ),
            "misclassified fraction of fresh samples",
            r"test error,  $\mathrm{P}(y w<0)$",
        ),
        (
            gs.MixtureGLM(labels="linear", ridge=0.1, samples_per_dim=2.0),
            "mean squared error on fresh samples, label noise included",
            r"test error,  $\mathrm{E}(y - w)^2$",
        ),
        (
            gs.OneStep(
                target="sign(z)",
                loss="logistic",
                width_per_dim=1.5,
                samples_per_dim=2.0,
                ridge=0.1,
            ),
            "misclassified fraction of fresh samples",
            r"test error,  $\mathrm{P}(y f<0)$",
        ),
    ],
)
def test_titles_and_symbols_hold_for_the_labels_of_the_scenario(scenario, title, label):
    (axes,) = plot(
        gs.predict(scenario, ridge=[0.1, 0.3], progress=False), "test_error"
    ).axes
    assert (axes.get_title(loc="left"), axes.get_ylabel()) == (title, label)
    assert not Reading(gs.predict(scenario)).classes() == title.startswith("mean")


def test_both_kinds_of_labels_are_said_where_they_vary():
    mixture = gs.MixtureGLM(
        labels="sign", loss="square", ridge=0.1, samples_per_dim=2.0
    )
    (axes,) = plot(
        gs.predict(mixture, labels=["linear", "sign"], ridge=[0.1, 0.3]), "test_error"
    ).axes
    assert "with classes" in axes.get_title(loc="left").replace("\n", " ")


def test_curves_of_two_fields_have_a_panel_for_each_value_of_one(tmp_path):
    """Every neuron over a grid of rates: 120 curves, which one panel cannot show."""
    shape = (3, 3, 20, 2)
    coords = {"rate": [0.5, 1.0, 2.0], "time": [0, 1, 2]}
    result = xr.Dataset(
        {
            "cosine": (
                ("rate", "time", "neuron", "direction"),
                np.random.default_rng(0).standard_normal(shape),
            ),
            "converged": (("rate",), np.ones(3, dtype=bool)),
        },
        coords,
        {"engine": "limit"},
    )
    figure = plot(result, path=tmp_path / "neurons.png")
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "rate = 0.5",
        "rate = 1",
        "rate = 2",
    ]
    assert len(figure.legends) == 1 and not any(
        axes.get_legend() for axes in figure.axes
    )
    with pytest.raises(
        gs.InputError, match="more curves than one axes shows; choose some along rate"
    ):
        plot(result, axes=figure.axes[0])


def test_complex_points_are_named_by_their_numbers():
    coords = {"z": [0, 1], "z_real": ("z", [-1.0, 1.0]), "z_imag": ("z", [0.0, 1.0])}
    both = xr.Dataset({"m": ("z", [0.1, 0.2])}, coords, {"engine": "limit"})
    assert Reading(both).data["z"].values.tolist() == ["-1", "1+1i"]
    line = both.assign_coords(z_imag=("z", [0.1, 0.1]))
    assert Reading(line).data["z"].values.tolist() == [-1.0, 1.0]


def test_long_titles_end_where_the_next_panel_begins():
    text = (
        "a title that says at great length what its panel shows, and goes on and on"
        " about it"
    )
    values = ("a", [1.0, 2.0], {"long_name": text})
    figure = plot(
        xr.Dataset({"m": values, "n": values}, {"a": [1.0, 2.0]}, {"engine": "limit"}),
        ["m", "n"],
    )
    figure.draw_without_rendering()
    assert figure.axes[0].get_title(loc="left").replace("\n", " ") == text
    left = [
        child
        for child in figure.axes[0].get_children()
        if getattr(child, "get_text", str)().startswith("a title")
    ]
    assert left[0].get_window_extent().x1 < figure.axes[1].get_tightbbox().x0


def test_errors_of_what_only_the_experiment_answers_are_kept():
    both = gs.compare(
        gs.GiantSteps.example(), what="fit", dim=20, trials=2, progress=False
    )
    assert (
        np.isfinite(both.test_error_stderr.sel(source="experiment"))
        and "test_error_z" not in both
    )
    figure = plot(both)
    said = {
        cell.get_text().get_text()
        for cell in figure.axes[0].tables[0].get_celld().values()
    }
    assert "experiment" in said and not {"limit", "not computed"} & said


def test_log_axes_of_few_decades_have_plain_numbers():
    figure, (axes,) = new_figure(1, 1, width=4, height=3)
    axes.plot([0, 1], [0.5, 2.2])
    axes.set_yscale("log")
    plain_log_axes(figure)
    figure.draw_without_rendering()
    low, high = axes.get_ylim()
    said = [
        text.get_text()
        for text in axes.get_yticklabels()
        if low < text.get_position()[1] < high
    ]
    assert said == ["0.5", "0.6", "0.8", "1", "1.5", "2"]
