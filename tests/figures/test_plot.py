"""`plot` on hand-made results of every layout: what is drawn, not how it looks."""

from __future__ import annotations

import ast
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import toys
import xarray as xr
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.image import imread
from matplotlib.patches import StepPatch

import giantstep as gs
from giantstep.core.base.errors import InputError
from giantstep.core.scenario.families import SHIPPED, family_class
from giantstep.core.scenario.references import BIBTEX
from giantstep.tools import figures
from giantstep.tools.figures.labels import mathtext, value_label
from giantstep.tools.figures.plot import plot, save_figure
from giantstep.tools.figures.reading import Reading
from giantstep.tools.figures.style import PALETTE, colours, is_geometric, new_figure


def error_bars(axes):
    return [
        bars
        for bars in axes.containers
        if bars.has_yerr and len(bars.lines[0].get_xdata())
    ]


def texts(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_a_comparison_has_lines_for_the_limit_and_error_bars_for_the_experiment():
    result = toys.comparison()
    figure = plot(result, "test_error")
    (axes,) = figure.axes
    bars = error_bars(axes)
    assert len(bars) == 3
    points, _, (sticks,) = bars[2].lines
    np.testing.assert_allclose(
        points.get_ydata(), result.test_error.sel(source="experiment").isel(ridge=2)
    )
    assert isinstance(sticks, LineCollection)
    low, high = np.array(sticks.get_segments()[0])[:, 1]
    stderr = float(result.test_error_stderr.sel(source="experiment")[0, 2])
    assert high - low == pytest.approx(2 * stderr)
    lines = [
        line
        for line in axes.lines
        if len(line.get_xdata()) == 9 and line.get_linestyle() == "-"
    ]
    limit = result.test_error.sel(source="limit").isel(ridge=0)
    assert any(
        np.array_equal(line.get_ydata(), limit, equal_nan=True) for line in lines
    )


def test_labels_and_legend_come_from_the_result_and_say_everything_once():
    (axes,) = plot(toys.comparison(), "test_error").axes
    assert (
        axes.get_xlabel()
        == r"fresh samples of the ridge fit per dimension,  $\alpha = n/d$"
    )
    assert axes.get_ylabel() == r"test error,  $\mathrm{E}(y - f)^2$"
    entries = texts(axes)
    assert entries[:3] == [r"$\lambda$ = 0.01", r"$\lambda$ = 0.1", r"$\lambda$ = 1"]
    assert entries[3] == "limit, at the dots only"
    assert entries[4].startswith("experiment")
    assert entries[5] == "not computed"
    assert len(entries) == 6


def test_missing_points_leave_gaps_and_are_marked():
    (axes,) = plot(toys.comparison(), "test_error").axes
    assert any(np.isnan(line.get_ydata()).any() for line in axes.lines)
    crosses = [
        line
        for line in axes.lines
        if line.get_marker() == "x" and len(line.get_xdata())
    ]
    assert sorted(float(line.get_xdata()[0]) for line in crosses) == pytest.approx(
        [2.15, 3.075]
    )


def test_points_without_a_neighbour_are_dots():
    """No line would show them."""
    result = toys.prediction().isel(ridge=0, drop=True)
    x = result["samples_per_dim"].values
    y = result["test_error"].values
    y[:] = np.where(np.isin(np.arange(30), [0, 2, 4, 5, 29]), 1.0, np.nan)
    (axes,) = plot(result, "test_error").axes
    dots = [
        line.get_xdata()
        for line in axes.lines
        if line.get_linestyle() == "None" and line.get_marker() == "o"
    ]
    np.testing.assert_array_equal(np.concatenate(dots), x[[0, 2, 29]])


def test_a_variable_of_one_engine_is_drawn_once():
    (axes,) = plot(toys.comparison(), "null_error").axes
    assert not error_bars(axes)
    assert texts(axes)[:3] == [
        r"$\lambda$ = 0.01",
        r"$\lambda$ = 0.1",
        r"$\lambda$ = 1",
    ]


def test_a_geometric_grid_gets_a_log_axis_and_can_be_told_not_to():
    result = toys.prediction().isel(samples_per_dim=[5, 9])
    (axes,) = plot(result).axes
    assert axes.get_xscale() == "log"
    assert axes.get_yscale() == "linear"
    assert axes.get_xlabel().endswith(r"$\lambda$")
    (axes,) = plot(result, log="y").axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "log")


def test_values_over_many_decades_get_a_log_axis():
    result = toys.prediction().isel(ridge=0)
    result["test_error"] = 10.0 ** (result.samples_per_dim * 1.5)
    (axes,) = plot(result).axes
    assert axes.get_yscale() == "log"


def test_two_long_dimensions_make_a_map_with_its_failures_marked():
    figure = plot(toys.prediction())
    axes = figure.axes[0]
    (mesh,) = [child for child in axes.collections if isinstance(child, QuadMesh)]
    assert mesh.get_array().shape == (20, 30)
    assert np.ma.getmaskarray(mesh.get_array()).sum() == 2
    assert axes.get_yscale() == "log"
    assert figure.axes[1].get_ylabel().startswith("test error")
    (crosses,) = [line for line in axes.lines if line.get_marker() == "x"]
    assert len(crosses.get_xdata()) == 2


def test_a_map_of_a_comparison_has_a_panel_for_each_engine():
    base = toys.prediction()
    both = xr.concat(
        [base, base], xr.IndexVariable("source", toys.SOURCES)
    ).assign_attrs(engine="comparison")
    assert [axes.get_title(loc="left") for axes in plot(both).axes[:2]] == toys.SOURCES


def test_a_short_second_dimension_makes_curves_in_ordered_colours():
    (axes,) = plot(toys.prediction(30, 6)).axes
    assert len(texts(axes)) == 7  # six ridges and the mark of what was not computed
    assert (
        len({line.get_color() for line in axes.lines if len(line.get_xdata()) == 30})
        == 6
    )


def test_a_spectrum_has_lines_and_histograms_of_the_same_mass():
    result = toys.spectrum()
    (axes,) = plot(result, "density").axes
    steps = [patch for patch in axes.patches if isinstance(patch, StepPatch)]
    assert len(steps) == 4  # filled and outlined, for two spectra
    data = steps[0].get_data()
    mass = float(
        result.density.sel(source="experiment")[0].sum() * (result.x[1] - result.x[0])
    )
    assert np.sum(data.values * np.diff(data.edges)) == pytest.approx(mass)
    assert axes.get_xlabel().startswith("eigenvalue")
    assert "mass 0.2" in texts(axes)[0]
    assert len([line for line in axes.lines if line.get_marker() == "v"]) == 2
    assert any("far to the right" in text.get_text() for text in axes.texts)


def test_a_distribution_function_over_x_is_drawn_too():
    (axes,) = plot(toys.spectrum(), "cdf").axes
    assert (
        len([line for line in axes.lines if line.get_drawstyle() == "steps-mid"]) == 2
    )


def test_trajectories_run_over_time_and_stop_where_they_diverged():
    (axes,) = plot(toys.trajectories()).axes
    assert axes.get_xlabel() == "updates made per dimension,  $t$"
    assert len(error_bars(axes)) == 3
    assert texts(axes)[:3] == ["neuron 1", "neuron 2", "neuron 3"]


def test_a_result_without_a_grid_is_a_table_and_blocks_are_points():
    figure = plot(toys.numbers(), ["theta", "test_error", "norm"])
    points, numbers = figure.axes
    assert len(error_bars(points)) == 1
    cells = [
        cell.get_text().get_text() for cell in numbers.tables[0].get_celld().values()
    ]
    assert "0.418511" in cells
    assert r"0.4209 $\pm$ 0.0018" in cells
    assert "1.30" in cells


def test_spikes_are_dashes_that_no_line_joins_above_the_edge_of_the_bulk():
    weak = gs.GrowingStep(rate=1.0, exponent=0.1, batch_per_dim=4.0, update="rank-one")
    sizes = {
        "width_per_dim": 2.0,
        "samples_per_dim": 4.0,
        "ridge": 0.2,
        "second_layer": "gaussian",
    }
    centred = {
        "activation": "relu(z) - 1/sqrt(2*pi)",
        "target": "h1(z) + h2(z)/sqrt(2)",
        "step": weak,
    }
    both = gs.compare(
        gs.OneStep(**centred, **sizes),
        what="spikes",
        dim=100,
        trials=2,
        step__exponent=[0.05, 0.3, 0.4],
    )
    (axes,) = plot(both).axes
    dashes = [line for line in axes.lines if line.get_marker() == "_"]
    theory = both.singular_values.sel(source="theory").values
    # names along the axis: NaN leaves a place empty
    assert {len(line.get_xdata()) for line in dashes} == {6}
    for row in theory[1:]:  # one spike, then two; a single one was not drawn at all
        assert any(
            np.array_equal(line.get_ydata(), row, equal_nan=True) for line in dashes
        )
    assert all(line.get_linestyle() == "None" for line in dashes)
    solid = [
        line
        for line in axes.lines
        if line.get_linestyle() == "-" and np.isfinite(line.get_ydata()).sum() > 1
    ]
    assert not solid
    edge = float(both.bulk_edge.sel(source="theory")[0])
    assert any(
        np.allclose(line.get_ydata(), edge)
        for line in axes.lines
        if line.get_linestyle() != "None"
    )
    assert any("bulk edge" in text for text in texts(axes))
    (across,) = plot(both, x="step.exponent").axes  # along a field spikes are lines
    assert any(
        len(line.get_xdata()) > 50 and line.get_linestyle() == "-"
        for line in across.lines
    )


def test_names_along_the_axis():
    (axes,) = plot(toys.named()).axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == [
        "relu",
        "tanh",
        "erf",
    ]


def test_trials_are_averaged():
    rng = np.random.default_rng(0)
    values = rng.standard_normal((6, 5))
    result = xr.Dataset(
        {"test_error": (("ridge", "trial"), values)},
        {"ridge": np.linspace(0, 1, 6)},
        {"engine": "experiment"},
    )
    (axes,) = plot(result).axes
    (bars,) = error_bars(axes)
    np.testing.assert_allclose(bars.lines[0].get_ydata(), values.mean(axis=1))


def test_the_axis_can_be_chosen_also_by_a_paired_coordinate():
    result = toys.comparison().assign_coords(ratio=("samples_per_dim", np.arange(9.0)))
    assert plot(result, "test_error", x="ratio").axes[0].get_xlabel() == "ratio"
    (axes,) = plot(result.isel(samples_per_dim=[1, 2]), "test_error", x="ridge").axes
    assert axes.get_xlabel().endswith(r"$\lambda$")
    assert texts(axes)[0].startswith(r"$\alpha$ = ")


def test_several_variables_share_given_axes():
    with matplotlib.rc_context():
        figure, (axes,) = new_figure(1, 1, width=4, height=3)
    returned = plot(
        toys.comparison().isel(ridge=0), ["test_error", "null_error"], axes=axes
    )
    assert returned is figure
    assert texts(axes)[:2] == ["test error", "null error"]


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"variables": "test_eror"}, "did you mean `test_error`"),
        ({"x": "noise"}, "x='noise'"),
        ({"log": "z"}, "`log` must be"),
        ({"path": "figure.bmp"}, "ends in .png, .pdf, .svg"),
        ({"path": "nowhere/at/all.png"}, "nowhere"),
        ({"axes": "here"}, "`axes` must be"),
    ],
)
def test_bad_input_is_said_in_one_sentence(keywords, said):
    with pytest.raises(InputError, match=said.replace(".", r"\.")):
        plot(toys.comparison(), **keywords)


def test_what_is_no_result_is_refused_and_so_are_too_many_curves():
    with pytest.raises(InputError, match="not dict"):
        plot({})
    crowd = xr.Dataset({"a": (("time", "neuron", "neuron_2"), np.zeros((3, 9, 9)))})
    with pytest.raises(InputError, match="81 curves"):
        plot(crowd)


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_files_are_written_whole(tmp_path, ending):
    path = tmp_path / f"figure.{ending}"
    plot(toys.comparison(), "test_error", path)
    assert path.stat().st_size > 5000
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    if ending == "png":
        image = imread(path)
        assert min(image.shape[:2]) > 500
        assert 0.005 < np.mean(image[..., :3].min(axis=2) < 0.5) < 0.3
    if ending == "pdf":
        assert b"/Type3" not in path.read_bytes()


def test_nothing_is_left_where_saving_fails(tmp_path):
    figure = plot(toys.comparison(), "test_error")
    figure.axes[0].set_xlabel(r"$\broken$")
    with pytest.raises(ValueError):
        save_figure(figure, tmp_path / "figure.png")
    assert not list(tmp_path.iterdir())


def test_the_readers_own_settings_are_left_alone():
    before = dict(matplotlib.rcParams)
    plot(toys.comparison(), "test_error")
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize(
    ("symbol", "written"),
    [
        ("alpha0 = n0/d", r"$\alpha_{0} = n_{0}/d$"),
        ("zeta_q", r"$\zeta_{q}$"),
        ("sum (y - f)^2/n", r"$\Sigma\, (y - f)^2/n$"),
        ("mass at 0", "mass at 0"),
        ("-", ""),
    ],
)
def test_symbols_become_mathematics(symbol, written):
    assert mathtext(symbol) == written


def test_every_symbol_of_every_family_can_be_drawn():
    from giantstep.core.scenario.families import SHIPPED, family_class

    for family in SHIPPED:
        for question in family_class(family).questions.values():
            for variable in question.variables:
                text = mathtext(variable.symbol)
                assert text.count("$") in (0, 2)


def test_small_helpers():
    assert value_label(np.inf) == r"$\infty$"
    assert value_label(0.123456) == "0.123"
    assert is_geometric([0.01, 0.03, 0.1, 0.3, 1.0])
    assert not is_geometric([0.0, 1.0, 10.0])
    assert colours(3) == list(PALETTE[:3])
    assert len(colours(12)) == 12
    with pytest.raises(InputError, match=r"it has test_error, null_error\.$"):
        Reading(toys.comparison()).chosen("nothing")


@pytest.mark.parametrize(
    "path", sorted(Path(figures.__path__[0]).glob("*.py")), ids=lambda path: path.stem
)
def test_drawing_names_no_family_and_no_paper(path):
    folders = {name.replace("-", "_") for name in SHIPPED}
    forbidden = {
        *SHIPPED,
        *folders,
        *(family_class(name).__name__ for name in SHIPPED),
        *BIBTEX,
    }
    assert path.stem not in folders
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            assert not module.startswith("giantstep.papers")
            floor, _, problem = module.partition("giantstep.problems.")
            assert floor or problem.partition(".")[0] not in folders
            assert not forbidden & {name.name for name in node.names}
        elif isinstance(node, ast.Constant):
            assert node.value not in forbidden
